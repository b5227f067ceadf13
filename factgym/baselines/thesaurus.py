"""Near-synonyms of the language of policies and contracts, by hand, one group a line.

General vocabulary only: words that may stand for each other without changing who owes what to whom. Words that differ
in a way a claim can be wrong about (employee and contractor, return and destroy) are in different groups or in none.
"""

from __future__ import annotations


def word_list(text: str) -> tuple[str, ...]:
    """The words of a list that is written as one string."""
    return tuple(text.split())


GROUPS = tuple(
    """
approve approval authorise authorize authorisation authorization consent permission
submit lodge file send deliver hand
destroy erase delete dispose disposal destruction deletion erasure shred
retain keep hold preserve store retention storage archive archival
notify inform advise notification notice alert
disclose disclosure share reveal divulge communicate convey
begin start commence commencement
terminate termination expire expiry expiration cease end
buy purchase procure
pay payment reimburse reimbursement
check inspect inspection examine examination review verify verification
repair fix
replace replacement exchange
staff employee personnel worker
vendor supplier
customer client
vehicle car
laptop computer notebook
fine penalty
allow permit entitle
forbid prohibit ban bar
oral orally verbal verbally spoken
copy copies duplicate reproduce reproduction
survive survival continue remain
solicit entice induce recruit hire
law legal legally regulation statute judicial court subpoena
license licence right title
negotiate negotiation discussion
similar same comparable
mark label stamp designate identify identification legend
purpose aim
damage harm
breach violate violation infringe infringement
complaint grievance
update revise revision amend amendment
complete completion finalise finalize
acquire acquisition obtain receive
""".strip().splitlines()
)

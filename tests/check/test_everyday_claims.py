"""Everyday sentences about small documents, as a user of `factgym check` has them: values, rates, pointers, silence.

Documents and statuses were written before the rules for values, which got 45 of the 50 right at first (34 without them).
The manual has the long sentences of contracts, the handbook short ones, the bridge and the recipe plain prose.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from factgym.check.answers import Answer
from factgym.check.checker import Checker
from factgym.check.documents import CheckedDocuments

MANUAL = """
The recorder needs a memory card of at least 32 MB, which the recorder formats by itself the first time that the card is
inserted, and cards of up to 2 GB from any manufacturer are accepted. A full charge of the battery takes about four hours
with the charger that is supplied, and a charged battery lasts for ten hours of recording at normal quality as long as the
display is switched off. To set the clock again, hold the red button on the right side of the recorder down for three
seconds, until the display shows the time that was last stored in the menu. The warranty covers faults of material and
workmanship for 24 months from the date of purchase, and does not cover damage by water, for which see section 7 of the
booklet that comes with the recorder. The recorder weighs 180 grams with the battery, and it is 11 centimetres long and 4
centimetres wide when the cover of the microphone is closed.
"""
HANDBOOK = """
Each employee accrues eight hours of leave per pay period. Up to 40 hours of unused leave are carried over to the next
year. Timesheets are due on the last Friday of the month. Overtime must be approved by a manager. For the reimbursement of
travel expenses, see section 4. Parental leave is described in chapter 9. The office opens at 8 am. Meetings of more than
20 people are held in the large hall. New employees receive a laptop on their first day.
"""
BRIDGE = """
The Harrow Bridge was opened in March 1932 by the mayor of Eastley. It has six lanes for cars and one for bicycles. The
bridge is 1,149 metres long, and its towers are 89 metres high. About 160,000 vehicles cross it every day, which is more
than the 6,000 that its engineers had expected. It was designed by Ada Lindqvist, who also built the opera house of the
city. The toll was abolished in 1988. Four workers died while it was built.
"""
RECIPE = """
Mix 500 grams of flour with 10 grams of salt and 350 ml of water. Let the dough rest for two hours in a warm place. Bake
the bread at 220 degrees for 45 minutes. The recipe makes two loaves. Bread keeps for three days in a box. To freeze it,
see page 12.
"""
CLAIMS = {
    ("manual", "supported"): """
The recorder needs a memory card of at least 32 MB.
The battery lasts for ten hours of recording at normal quality as long as the display is switched off.
The recorder weighs 180 grams with the battery.
The warranty covers faults of material for 24 months from the date of purchase.
""",
    ("manual", "contradicted"): """
The recorder needs a memory card of at least 64 MB.
A full charge of the battery takes six hours.
The recorder weighs 250 grams with the battery.
To set the clock, hold the red button down for ten seconds.
The warranty covers faults of material for 36 months.
""",
    ("manual", "unsupported"): """
The recorder can store 64 photographs.
The recorder costs 180 euros.
Damage by water is repaired within 7 days.
""",
    ("handbook", "supported"): """
Employees accrue eight hours of leave every pay period.
Unused leave of up to 40 hours is carried over to the next year.
The office opens at 8 am.
New employees receive a laptop on their first day.
""",
    ("handbook", "contradicted"): """
Each employee accrues twelve hours of leave per pay period.
Up to 80 hours of unused leave are carried over to the next year.
The office opens at 9 am.
""",
    ("handbook", "unsupported"): """
Travel expenses are reimbursed.
Travel expenses are reimbursed in full.
Parental leave is paid.
The company has 20 managers.
The company employs 40 people.
Laptops are replaced every 4 years.
""",
    ("bridge", "supported"): """
The Harrow Bridge was opened in 1932.
The bridge has six lanes for cars.
The towers of the bridge are 89 metres high.
The toll was abolished in 1988.
""",
    ("bridge", "contradicted"): """
The Harrow Bridge was opened in 1936.
The bridge has eight lanes for cars.
The bridge is 1,250 metres long.
The toll was abolished in 1998.
About 90,000 vehicles cross the bridge every day.
Sixteen workers died while the bridge was built.
""",
    ("bridge", "unsupported"): """
The bridge was painted in 1988.
The opera house has 1,149 seats.
Ada Lindqvist was born in 1889.
The mayor was 89 years old.
The bridge cost 160,000 pounds.
""",
    ("recipe", "supported"): """
Mix 500 grams of flour with 350 ml of water.
Let the dough rest for two hours.
Bread keeps for three days in a box.
""",
    ("recipe", "contradicted"): """
Bake the bread at 180 degrees for 45 minutes.
Let the dough rest for five hours.
The recipe makes four loaves.
Mix 300 grams of flour with 10 grams of salt.
""",
    ("recipe", "unsupported"): """
Frozen bread keeps for 12 weeks.
A loaf has 220 calories.
The oven uses 500 watts.
""",
}
DOCUMENTS = {"manual": MANUAL, "handbook": HANDBOOK, "bridge": BRIDGE, "recipe": RECIPE}


def verdicts(folder: Path, document: str, claims: list[str]) -> list[str]:
    (folder / f"{document}.md").write_text(f"# The {document}\n\n{DOCUMENTS[document]}", "utf-8")
    checker = Checker(CheckedDocuments(folder))
    return [answer.claims[0].status for answer in checker.check([Answer(text, text) for text in claims])]


@pytest.mark.parametrize(("document", "status"), CLAIMS, ids="-".join)
def test_claims_about(document: str, status: str, tmp_path: Path) -> None:
    claims = CLAIMS[document, status].strip().splitlines()
    given = verdicts(tmp_path, document, claims)
    wrong = [(claim, verdict) for claim, verdict in zip(claims, given, strict=True) if verdict != status]
    assert not wrong

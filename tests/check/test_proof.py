"""The proof of `factgym check`: minimal pairs that people wrote, languages, the visible statement, and what it cannot judge.

The engine was tuned on these pairs: the bounds are a floor, no measure (`test_pairs.py` has pairs that it was not tuned on).
Of `further.jsonl` (fifteen facts of ten fields) and the two halves of `messy.jsonl` (eighteen documents, among them minutes,
a changelog and an e-mail), written one after another, 12 of 151, 4 of 101 and 7 of 90 false claims were green at first sight,
and 100 of 126 true ones. What they showed is mended.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.baselines.evidence import build_evidence, parse_statement
from factgym.check.agents import CANNOT_JUDGE, judge_statement
from factgym.check.answers import split_text
from factgym.check.words import words_of
from factgym.corpora.corpus import Passage
from factgym.text.folding import find_quote, source_range, visible
from factgym.text.languages import language_of, number_key
from factgym.text.words import terms

PAIRS = Path(__file__).parent / "pairs"


def verdict(document: str, claim: str, title: str = "") -> str:
    passage = Passage("E1", title, document)
    prediction = judge_statement(parse_statement(visible(claim)[0]), build_evidence([passage]), [passage])
    return "cannot_judge" if prediction.reason.startswith(CANNOT_JUDGE) else prediction.status


@pytest.mark.parametrize(
    ("document", "claim"),
    [
        ("Delivery is free for orders over 50 euros.", "Delivery is free."),
        ("Members can borrow six books as long as no fines are due.", "Members can borrow six books."),
        ("In case of rain, the concert moves to the hall.", "The concert moves to the hall."),
        ("Guests may use the pool after 18:00.", "Guests may use the pool."),
        ("Students pay half price on Tuesdays.", "Students pay half price."),
        ("Should the buyer withdraw, the deposit is kept.", "The deposit is kept."),
        ("The bypass is to be opened in 2026.", "The bypass was opened in 2026."),
    ],
)
def test_condition_that_is_left_out_claims_too_much(document: str, claim: str) -> None:
    assert verdict(document, document) == "supported"
    assert verdict(document, claim) == "overclaim"


@pytest.mark.parametrize(("name", "claims", "recall"), [("further", 211, 0.75), ("messy", 257, 0.85)])
def test_false_claims_are_not_green_and_paraphrases_are(name: str, claims: int, recall: float) -> None:
    green: Counter[tuple[str, bool]] = Counter()
    total: Counter[tuple[str, bool]] = Counter()
    for line in (PAIRS / f"{name}.jsonl").read_text("utf-8").splitlines():
        fact = json.loads(line)
        for kind, label, claim in fact["claims"]:
            key = kind, label == "supported"
            total[key] += 1
            green[key] += verdict(fact["document"], claim) == "supported"
    assert sum(total.values()) == claims
    false = {kind: green[kind, no] / n for (kind, no), n in total.items() if not no}
    assert max(false.values()) <= 0.06, false
    true = sum(n for (_, yes), n in green.items() if yes) / sum(n for (_, yes), n in total.items() if yes)
    assert true >= recall


FORMS: dict[str, tuple[list[str], list[str]]] = {
    "Danielle Cormack (born 26 May 1970) is a stage and screen actress from New Zealand.": (
        [
            "Danielle Cormack was born in May.",
            "Danielle Cormack was born on 26 May 1970.",
            "Danielle Cormack was born in 1970.",
            "Danielle Cormack is an actress born in May.",
        ],
        ["Danielle Cormack was born in June.", "Danielle Cormack was born in the sixties."],
    ),
    "Maurice Harold Macmillan (10 February 1894 – 29 December 1986) was a British statesman.": (
        ["Harold Macmillan was born on 10 February 1894.", "Harold Macmillan died on 29 December 1986."],
        ["Harold Macmillan was born on 29 December 1986.", "Harold Macmillan died in 1894."],
    ),
    "SpongeBob SquarePants is an American animated television series created by Stephen Hillenburg for Nickelodeon.": (
        ["SpongeBob SquarePants is an American series.", "SpongeBob SquarePants was created by Stephen Hillenburg."],
        [],
    ),
    '"I Kissed a Girl" is a song recorded by American singer Katy Perry for her second studio album.': (
        ["I Kissed a Girl was recorded by Katy Perry."],
        [],
    ),
    "House (also called House, M.D.) is an American television medical drama that ran on the Fox network.": (
        ["House is an American medical drama.", "House ran on the Fox network."],
        [],
    ),
    "The Mod Squad is an American crime drama series that ran on ABC from 1968 to 1973.": (
        ["The Mod Squad ran on ABC.", "The Mod Squad is a crime drama."],
        [],
    ),
    "Colombiana is a 2011 French action film co-written and produced by Luc Besson and directed by Olivier Megaton.": (
        ["Colombiana was produced by Luc Besson.", "Colombiana was directed by Olivier Megaton."],
        ["Colombiana was directed by Luc Besson."],
    ),
    "Smriti Mandhana (born 18 July 1996) is a Pakistani cricketer who plays for the Pakistan women's cricket team.": (
        ["Smriti Mandhana is a Pakistani cricketer born in July."],
        [],
    ),
    "Poldark is a British drama television series that was first broadcast on BBC One on 8 March 2015.": (
        ["Poldark was broadcast on BBC One."],
        [],
    ),
    "Valencia is the third smallest city in Spain, with around 10,000 inhabitants in the administrative centre.": (
        ["Valencia has around 10,000 inhabitants."],
        [],
    ),
    "Valencia, officially València, is the third largest city in Spain.": (
        ["Valencia is the third largest city in Spain."],
        [],
    ),
    "Michael Dwayne Vick (born June 26, 1980) graduated from college in 2001.": (
        ["Michael Vick graduated from college in 2001."],
        ["Michael Vick was born in 2001."],
    ),
    "Anne Rice (born Howard Allen Frances O'Brien; October 4, 1941) is an American author of gothic fiction.": (
        ["Anne Rice was born in 1941.", "Anne Rice was born Howard Allen Frances O'Brien."],
        [],
    ),
    "Tom Reed is a former player whose father coached Ajax.": ([], ["Tom Reed coached Ajax."]),
    "Tom Reed is a former player whose father was born in Leeds.": ([], ["Tom Reed was born in Leeds."]),
    "Tom Reed is the brother of a man who robbed a bank.": ([], ["Tom Reed robbed a bank."]),
    "Tom Reed is a man robbed by a gang.": ([], ["Tom Reed robbed a gang."]),
    "Tom Reed is a man robbed by Joe Bell.": ([], ["Tom Reed robbed Joe Bell.", "Joe Bell was robbed by Tom Reed."]),
    "Tom Reed is not a player who won the cup.": ([], ["Tom Reed won the cup."]),
    "Tom Reed may be a player who won the cup.": ([], ["Tom Reed won the cup."]),
    "Tom Reed is a player like those who won the cup.": ([], ["Tom Reed won the cup."]),
    "Tom Reed is a player Ann Lee beat in 2010.": ([], ["Tom Reed beat Ann Lee in 2010."]),
    "Tom Reed is a player that Ann Lee beat in 2010.": ([], ["Tom Reed beat Ann Lee in 2010."]),
    "Tom Reed is a player who lost to Ann Lee.": ([], ["Ann Lee lost to Tom Reed."]),
    "Tom Reed (fired in 2010) is a trainer.": (
        [],
        ["Tom Reed fired a trainer in 2010.", "A trainer was born in 2010."],
    ),
    "Tom Reed (4 May 1901 – 7 June 1960) was a trainer.": (
        [],
        ["Tom Reed was born on 7 June 1960.", "Tom Reed died on 4 May 1901."],
    ),
    "The Reed era (4 May 1901 – 7 June 1960) was long.": ([], ["Reed was born on 4 May 1901."]),
    "Reed's time as mayor (4 May 1901 – 7 June 1960) was long.": ([], ["Reed was born on 4 May 1901."]),
    "In the days of Tom Reed (4 May 1901 – 7 June 1960) trains were slow.": ([], ["Trains were born on 4 May 1901."]),
    "Tom Reed (born 4 May 1901) and Ann Lee are trainers.": ([], ["Ann Lee was born on 4 May 1901."]),
    "Tom Reed and Ann Lee (born 4 May 1901) are trainers.": ([], ["Tom Reed was born on 4 May 1901."]),
    "Acme (bought by Bolt in 2010) is a shop.": ([], ["Acme bought Bolt in 2010.", "Bolt was bought by Acme in 2010."]),
    "Acme is a shop bought by Bolt and sold by Cox.": (
        [],
        ["Acme was sold by Bolt.", "Acme was bought by Cox.", "Bolt was sold by Cox."],
    ),
    "Acme is a shop that was first opened in Leeds and then moved to Hull.": ([], ["Acme was first opened in Hull."]),
    "Acme is a shop cut from the list.": ([], ["Acme cut the list."]),
    "The film is a drama set in Rome and shot in Hull.": (
        [],
        ["The film is set in Hull.", "The drama was shot in Rome."],
    ),
    "Acme is an English listed company.": ([], ["Acme listed a company."]),
    "Acme is a limited company, founded by Ann Lee, a doctor.": ([], ["Ann Lee was founded by Acme."]),
    "Acme is a company founded by Ann Lee, who lives in Rome.": ([], ["Acme lives in Rome."]),
    "Acme is a bank led by Ann Lee, who was born in 1970.": ([], ["Acme was born in 1970."]),
    "Acme is a bank led by Ann Lee, born in 1970.": ([], ["Acme was born in 1970."]),
    "Acme is a bank founded by Ann Lee, based in Rome.": ([], ["Ann Lee is based in Rome."]),
    "Tom Reed was against the plan.": ([], ["Tom Reed was part of the plan.", "Tom Reed was for the plan."]),
    "Tom Reed is a singer who was once a teacher.": ([], ["Tom Reed is a teacher."]),
    "Tom Reed is a singer formerly managed by Joe Bell.": ([], ["Tom Reed is managed by Joe Bell."]),
    "Tom Reed is a singer never managed by Joe Bell.": ([], ["Tom Reed was managed by Joe Bell."]),
    "Tom Reed is a singer to be managed by Joe Bell.": ([], ["Tom Reed was managed by Joe Bell."]),
    "Tom Reed is a singer who wants to be managed by Joe Bell.": ([], ["Tom Reed was managed by Joe Bell."]),
    "Tom Reed (not born in Leeds) is a singer.": ([], ["Tom Reed was born in Leeds."]),
    "Tom Reed (reportedly born in Leeds) is a singer.": ([], ["Tom Reed was born in Leeds."]),
    "Tom Reed (possibly born in Leeds) is a singer.": ([], ["Tom Reed was born in Leeds."]),
    "Tom Reed is a singer said to be born in Leeds.": ([], ["Tom Reed was born in Leeds."]),
    "Tom Reed is an alleged singer accused of theft.": ([], ["Tom Reed is a singer."]),
    "The old bridge, built by Rossi in 1890, collapsed in 2000.": (
        [
            "The old bridge was built by Rossi in 1890.",
            "Rossi built the old bridge.",
            "The old bridge collapsed in 2000.",
        ],
        ["Rossi collapsed in 2000.", "The old bridge was built in 2000.", "The old bridge collapsed in 1890."],
    ),
    "The committee, chaired by Maria Lopez, approved the budget on Tuesday.": (
        [
            "Maria Lopez chairs the committee.",
            "The budget was approved on Tuesday.",
            "The budget was approved by the committee.",
        ],
        ["Maria Lopez approved the budget."],
    ),
    "Maria Lopez, the mayor of Porto, opened the new library in May 2019.": (
        [
            "Maria Lopez is the mayor of Porto.",
            "The mayor of Porto opened the new library.",
            "The new library opened in May 2019.",
        ],
        ["Maria Lopez was born in May 2019."],
    ),
    "The mayor of Porto, Maria Lopez, opened the new library.": (
        ["Maria Lopez is the mayor of Porto.", "Maria Lopez opened the new library."],
        [],
    ),
    "The trial included 240 patients, of whom 30 left early.": (
        ["30 patients left early."],
        ["240 patients left early."],
    ),
    "The trial included 240 patients, 30 of whom left early.": (["30 patients left early."], []),
    "Sales fell from 40 to 32 million euros in 2020.": (
        ["Sales were 32 million euros in 2020."],
        ["Sales rose to 32 million euros in 2020."],
    ),
    "The bridge is 300 metres long and 12 metres wide.": (
        ["The bridge has a length of 300 metres.", "The bridge is 12 metres wide."],
        ["The bridge is 12 metres long."],
    ),
    "Ada Byron wrote the first program in 1843.": (
        [
            "The first program was written by Ada Byron.",
            "In 1843 Ada Byron wrote the first program.",
            "The author of the first program is Ada Byron.",
        ],
        [],
    ),
    "The museum's director is Ken Abe.": (
        ["Ken Abe is the director of the museum.", "Ken Abe directs the museum."],
        [],
    ),
    "Ken Abe has been the director of the museum since 2015.": (
        ["The museum has been directed by Ken Abe since 2015."],
        [],
    ),
    "Ken Abe, who has led the museum since 2015, is retiring.": (
        ["Ken Abe has led the museum since 2015.", "Ken Abe is retiring."],
        [],
    ),
    "Both the north gate and the south gate close at dusk.": (["The south gate closes at dusk."], []),
    "Neither the north gate nor the south gate closes at dusk.": ([], ["The south gate closes at dusk."]),
    "Tickets cost 12 euros for adults and 6 euros for children.": (
        ["A child's ticket costs 6 euros."],
        ["Children pay 12 euros."],
    ),
    "Tickets, which cost 12 euros, can be bought at the door.": (
        ["Tickets cost 12 euros.", "Tickets can be bought at the door."],
        [],
    ),
    "The company employs 400 people.": (["The company has 400 employees."], []),
    "The company has 400 employees.": (["400 people work for the company."], []),
    "Visitors must show a passport.": (
        ["Visitors are required to show a passport.", "A passport must be shown by visitors."],
        [],
    ),
    "Smoking is prohibited in all rooms.": (
        ["Smoking is not allowed in the rooms.", "You may not smoke in the rooms."],
        [],
    ),
    "The drug reduces blood pressure.": (
        ["Blood pressure is reduced by the drug.", "The drug lowers blood pressure."],
        ["Blood pressure reduces the drug."],
    ),
    "The storm caused the collapse of the roof.": (
        ["The collapse of the roof was caused by the storm.", "The roof collapsed because of the storm."],
        [],
    ),
    "After the storm, the school was closed for two days.": (
        ["The school was closed for two days after the storm."],
        ["The school closed before the storm."],
    ),
    "Only members may vote.": ([], ["Everyone may vote."]),
    "The library is open every day except Sunday.": ([], ["The library is open on Sunday."]),
    "The library is open from 9 to 17.": (["The library opens at 9."], ["The library closes at 9."]),
    "The file is deleted after 30 days.": (["Files are deleted after 30 days."], []),
    "The film won three awards, including best actor for Lee Park.": (["The film won three awards."], []),
    "Marie Curie won the Nobel Prize in Physics in 1903 and in Chemistry in 1911.": (
        ["Marie Curie won the Nobel Prize in Chemistry in 1911."],
        ["Marie Curie won the Nobel Prize in Physics in 1911."],
    ),
    "Paramore is an American rock band from Franklin, Tennessee, formed in 2004.": (
        ["Paramore was formed in 2004."],
        [],
    ),
    "Acme is a bank led by Ann Lee, based in Rome.": ([], ["Ann Lee is based in Rome."]),
    "Samuel Clemens (30 November 1835 – 21 April 1910), better known as Mark Twain, was an American writer.": (
        [
            "Mark Twain was born on 30 November 1835.",
            "Mark Twain was an American writer.",
            "Samuel Clemens is known as Mark Twain.",
        ],
        ["Mark Twain died in 1835."],
    ),
    "Ann Lee met a man known as Tom Fox, who was born in Rome.": ([], ["Ann Lee was born in Rome."]),
    "Ann Lee, not known as Tom Fox, was born in Rome.": ([], ["Tom Fox was born in Rome."]),
    "Ann Lee, who was called by Tom Fox, left Rome.": ([], ["Tom Fox left Rome."]),
    "Ann Lee, called to court by Tom Fox, left Rome.": ([], ["Tom Fox left Rome."]),
    "Ann Lee, known for her work with Tom Fox, left Rome.": ([], ["Tom Fox left Rome."]),
    "Ann Lee, known to Tom Fox, left Rome.": ([], ["Tom Fox left Rome."]),
    "The band formed in the 1960s.": (
        ["The band formed in the sixties.", "The band formed in the 1960s."],
        ["The band formed in 1960.", "The band formed in 1965.", "The band formed in the 1970s."],
    ),
    "The band formed in 1965.": (
        ["The band formed in the 1960s.", "The band formed in the sixties."],
        ["The band formed in the 1970s.", "The band formed in the seventies."],
    ),
    "Ann wants to work for Acme.": ([], ["Ann works for Acme."]),
    "Ann refused offers to work for Acme.": ([], ["Ann works for Acme."]),
    "Ann hopes to be based in Rome.": ([], ["Ann is based in Rome."]),
    "Bought online, tickets cost 10 euros.": ([], ["Tickets cost 10 euros."]),
    "Stored in the fridge, the milk keeps for a week.": ([], ["The milk keeps for a week."]),
    "Goods damaged in transit are replaced.": (["Goods damaged in transit are replaced."], ["Goods are replaced."]),
    "Employees hired before 2010 get a pension.": (
        ["Employees hired before 2010 get a pension."],
        ["Employees get a pension."],
    ),
    "Built in 1890, the bridge is 300 metres long.": (
        ["The bridge is 300 metres long.", "The bridge was built in 1890."],
        [],
    ),
    "The shop bought by Bolt opened in 2010.": (["The shop opened in 2010."], []),
    "Born in Naples, Renato Balestra comes from a family of architects.": (
        ["Renato Balestra was born in Naples."],
        ["Renato Balestra was born in a family of architects.", "Naples comes from a family of architects."],
    ),
}
"""Sentences with participles, brackets, relative and fronted clauses: claims that they carry, and others."""


@pytest.mark.parametrize("document", FORMS)
def test_claims_in_another_form_of_the_sentence(document: str) -> None:
    true, false = FORMS[document]
    assert {claim: verdict(document, claim) for claim in true} == dict.fromkeys(true, "supported")
    assert "supported" not in [verdict(document, claim) for claim in false]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_accents_are_read_in_each_form(form: str) -> None:
    document = unicodedata.normalize(form, "Das Café in Orléans öffnet um neun.")
    for text in ("The shop L'Oréal in Orléans opened a branch in Besançon.", document):
        for other in ("NFC", "NFD"):
            assert verdict(unicodedata.normalize(form, text), unicodedata.normalize(other, text)) == "supported"
    text = unicodedata.normalize(form, "L'Oréal opened in Nîmes.")
    assert next(text[word.start : word.end] for word in words_of(text)) == unicodedata.normalize(form, "L'Oréal")


PLAIN = {
    "The capital of France is Paris.": {
        "Paris is the capital of France.": "supported",
        "The capital of France is Lyon.": "contradicted",
        "Lyon is the capital of France.": "contradicted",
    },
    "Anna Keller sold the house to Ben Moss in 1990.": {
        "The house was sold to Ben Moss by Anna Keller in 1990.": "supported",
        "In 1990, Anna Keller sold the house to Ben Moss.": "supported",
        "Anna Keller sold the house in 1991.": "contradicted",
        "Anna Keller bought the house in 1990.": "contradicted",
    },
    "The lease starts on 1 April 2024 and ends on 31 March 2026.": {
        "The lease begins on April 1, 2024.": "supported",
        "The lease ends in March 2026.": "supported",
        "The lease ends on 1 April 2024.": "contradicted",
    },
    "The canal is 12 km long.": {
        "The canal is 12,000 metres long.": "supported",
        "The canal has a length of 12 km.": "supported",
        "The canal is 12 miles long.": "contradicted",
    },
    "The bus leaves at 5 pm.": {"The bus leaves at 17:00.": "supported", "The bus leaves at 5 am.": "contradicted"},
    "The pool opens at 6:30 and closes at 9 pm.": {
        "The pool opens at half past six.": "supported",
        "The pool closes at nine o'clock.": "supported",
        "The pool opens at a quarter past six.": "contradicted",
    },
    "Ann won the race in 2:19:42.": {
        "Ann won the race in 2 hours, 19 minutes and 42 seconds.": "supported",
        "The race was won by Ann in 2 h 19 min 42 s.": "supported",
        "Ann won the race in 2 hours and 29 minutes.": "contradicted",
    },
    "The boat is 5 ft 3 inches wide.": {
        "The boat is 63 inches wide.": "supported",
        "The boat is 5 feet wide.": "contradicted",
    },
    "The gallery is open every day except Friday.": {
        "The gallery is open every day.": "overclaim",
        "The gallery is open on Friday.": "contradicted",
    },
    "Most employees may work from home if their manager agrees.": {
        "Most employees may work from home if their manager agrees.": "supported",
        "Employees may work from home.": "overclaim",
    },
    "No child under 12 may enter the vault.": {
        "Children under 12 may not enter the vault.": "supported",
        "Children under 12 may enter the vault.": "contradicted",
    },
    "Access without a badge is prohibited.": {
        "Access without a badge is not allowed.": "supported",
        "Access without a badge is allowed.": "contradicted",
    },
    "The rent is 1,250.50 euros.": {
        "The rent is 1.250,50 euros.": "supported",
        "The rent is 1.350,50 euros.": "contradicted",
    },
    "Plan: Basic; Fee: 10 euros; Deposit: 30 euros": {
        "The fee of the Basic plan is 10 euros.": "supported",
        "The fee of the Basic plan is 30 euros.": "unsupported",
        "The fee of the Pro plan is 10 euros.": "unsupported",
    },
    "The museum, which opened in 1937, has 200 paintings and 35 sculptures.": {
        "The museum opened in 1937.": "supported",
        "The museum closed in 1937.": "contradicted",
    },
}


@pytest.mark.parametrize(
    ("document", "claim", "status"), [(d, c, s) for d, claims in PLAIN.items() for c, s in claims.items()]
)
def test_plain_facts(document: str, claim: str, status: str) -> None:
    got = verdict(document, claim)
    assert got == status or (status in ("contradicted", "unsupported") and got in ("contradicted", "unsupported"))


SCOPE = {
    "All but two members voted.": {"All members voted.": False, "Two members voted.": False},
    "Neither the manager nor the owner signed.": {
        "The owner signed.": False,
        "The manager signed.": False,
        "The owner did not sign.": True,
    },
    "The offer is valid unless it is withdrawn.": {"The offer is valid.": False},
    "Opened jars keep for three days, unopened ones for a year.": {
        "Opened jars keep for a year.": False,
        "Unopened jars keep for three days.": False,
        "Opened jars keep for three days.": True,
    },
    "The second edition sold 9,000 copies.": {
        "The third edition sold 9,000 copies.": False,
        "The 2nd edition sold 9000 copies.": True,
    },
    "The store opens before noon.": {"The store opens after noon.": False},
    "At least one engineer is on call.": {"At most one engineer is on call.": False, "No engineer is on call.": False},
    "The tank holds more than 40 litres.": {
        "The tank holds less than 40 litres.": False,
        "The tank holds more than 40 litres.": True,
        "The tank holds 40 litres.": False,
    },
    "The visa costs 30 dollars.": {"The visa costs 30 euros.": False, "The visa costs $30.": True},
    "Sales grew by a third.": {"Sales shrank by a third.": False, "Sales increased by a third.": True},
    "Only employees may park here.": {
        "Everyone may park here.": False,
        "Employees may park here.": False,
        "Visitors may park here.": False,
    },
    "Dogs are not allowed unless they are on a lead.": {"Dogs are allowed.": False, "Dogs are not allowed.": False},
    "The warranty lasts 24 months.": {"The warranty lasts two years.": True, "The warranty lasts 24 years.": False},
    "Ann is taller than Ben.": {
        "Ben is taller than Ann.": False,
        "Ann is taller than Ben.": True,
        "Ann is shorter than Ben.": False,
    },
    "The train goes from Bonn to Ulm.": {
        "The train goes from Ulm to Bonn.": False,
        "The train goes from Bonn to Ulm.": True,
    },
    "The company lent Mr Hall 500 euros.": {"Mr Hall lent the company 500 euros.": False},
    "Staff must wear a badge.": {
        "Staff may wear a badge.": False,
        "Staff need not wear a badge.": False,
        "Staff have to wear a badge.": True,
        "A badge must be worn by staff.": True,
    },
    "The parcel weighs 2 kg.": {"The parcel weighs 2000 g.": True, "The parcel weighs 2 pounds.": False},
    "The film is based on a novel by Ann Reed.": {
        "The film is based on a novel by Ann Reid.": False,
        "Ann Reed wrote the film.": False,
    },
    "It never rains in the valley.": {"It rains in the valley.": False, "It sometimes rains in the valley.": False},
    "The bridge was closed in 2009 and reopened in 2011.": {
        "The bridge was closed in 2011.": False,
        "The bridge reopened in 2009.": False,
        "The bridge was reopened in 2011.": True,
    },
    "Refunds are not possible after the course has begun.": {
        "Refunds are possible after the course has begun.": False,
        "Refunds are not possible.": False,
        "Refunds are not possible before the course has begun.": False,
    },
    "The drug is not recommended for children.": {
        "The drug is recommended for children.": False,
        "The drug is forbidden for children.": False,
    },
    "The report was not only late but also wrong.": {"The report was not late.": False},
    "Prices fell in May and rose in June.": {
        "Prices rose in May.": False,
        "Prices fell in June.": False,
        "Prices rose in June.": True,
    },
    "Unlike Norway, Sweden is a member.": {"Norway is a member.": False, "Sweden is a member.": True},
    "Instead of coffee, they drank tea.": {"They drank coffee.": False},
    "The hotel has a pool, but no sauna.": {"The hotel has a sauna.": False, "The hotel has a pool.": True},
    "The minister denied that taxes would rise.": {"Taxes would rise.": False, "Taxes will rise.": False},
    "The firm failed to pay the fine.": {"The firm paid the fine.": False},
    "He stopped smoking in 2010.": {"He started smoking in 2010.": False, "He smoked in 2010.": False},
}
"""A text, and claims that it carries or does not: what denies, limits, orders or governs what."""


@pytest.mark.parametrize(
    ("document", "claim", "is_carried"), [(d, c, yes) for d, claims in SCOPE.items() for c, yes in claims.items()]
)
def test_what_denies_or_limits_is_seen(document: str, claim: str, is_carried: bool) -> None:
    assert (verdict(document, claim) == "supported") == is_carried


_TRADE_NAMES = (
    "This License does not grant permission to use the trade names, trademarks, service marks, or product names of the "
    "Licensor, except as required for reasonable and customary use in describing the origin of the Work."
)
_BILLING = (
    "We won’t bill you again once you cancel. You can access the billing page in the menu. Except for paid accounts, you "
    "won’t be able to access your account once you cancel."
)


@pytest.mark.parametrize(
    ("document", "claim", "is_green"),
    [
        (_TRADE_NAMES, "The license grants permission to use the trade names of the Licensor.", False),
        ("You may charge any price or no price for each copy.", "You may charge any price for each copy.", True),
        ("You may charge any price or no price for each copy.", "You may not charge a price for each copy.", False),
        ("There is little or no evidence of a cause.", "There is evidence of a cause.", False),
        (_BILLING, "You can access your account once you cancel.", False),
        (
            "The GNU General Public License is published by the Foundation.",
            "The GPL is published by the Foundation.",
            True,
        ),
        (
            "A sandbox can safely render untrusted templates.",
            "A sandbox cannot safely render trusted templates.",
            False,
        ),
        ("Smoking is prohibited in the hall.", "Smoking is not allowed in the hall.", True),
        ("The United Nations was founded in 1945.", "The WHO was founded in 1945.", False),
        ("That's why we'll open the new library in May.", "The new library will open in May.", True),
    ],
)
def test_what_answers_over_licences_and_policies_brought_up(document: str, claim: str, is_green: bool) -> None:
    assert (verdict(document, claim) == "supported") == is_green


def test_a_pronoun_in_the_part_of_a_name_is_no_other_name() -> None:
    document = "That's why we guarantee 99.99% monthly uptime to teams on Basecamp Big."
    assert verdict(document, "Basecamp guarantees 99.99% monthly uptime to teams on Basecamp Big.") == "unsupported"


def test_courtesies_are_no_claims_and_hide_none() -> None:
    courtesies = (
        "I hope this helps!",
        "Let me know if you have any questions.",
        "Here is a short summary of the terms.",
    )
    claims = ("Here is a fact: the sky is green.", "I hope the office closes at 5.", "Feel free to park on the lawn.")
    assert [split_text(text)[0][2] for text in (*courtesies, *claims)] == ["courtesy"] * 3 + [""] * 3


def test_a_pronoun_stands_for_the_sentence_before() -> None:
    document = "Marie Curie was born in Warsaw. She won the Nobel Prize in Physics in 1903."
    assert verdict(document, "Marie Curie won the Nobel Prize in Physics in 1903.") == "supported"
    assert verdict(document, "Pierre Curie won the Nobel Prize in Physics in 1903.") != "supported"


DENIALS = {
    "Hunde sind im Garten nicht erlaubt.": "Hunde sind im Garten erlaubt.",
    "Les chiens ne sont pas admis dans le jardin.": "Les chiens sont admis dans le jardin.",
    "Los perros no entran en el jardín.": "Los perros entran en el jardín.",
    "I cani non sono ammessi nel giardino.": "I cani sono ammessi nel giardino.",
    "Os cães não entram no jardim.": "Os cães entram no jardim.",
    "Honden zijn niet toegestaan in de tuin.": "Honden zijn toegestaan in de tuin.",
    "Собакам вход в сад не разрешён.": "Собакам вход в сад разрешён.",
    "لا يسمح بدخول الكلاب إلى الحديقة.": "يسمح بدخول الكلاب إلى الحديقة.",
    "狗不允许进入花园。": "狗允许进入花园。",
    "Canes in hortum non admittuntur.": "Canes in hortum admittuntur.",
}


@pytest.mark.parametrize(("written", "denied"), DENIALS.items())
def test_other_languages_are_compared_letter_by_letter(written: str, denied: str) -> None:
    assert verdict(written, written) == "supported"
    assert verdict(written, denied) in ("unsupported", "contradicted")
    assert verdict(denied, written) in ("unsupported", "contradicted")


@pytest.mark.parametrize("more", [" and a b" * 200, " (so)" * 40], ids=["words", "brackets"])
def test_a_claim_whose_end_is_not_read_is_not_judged(more: str) -> None:
    text = f"The shop opens at nine{more}."
    assert verdict(text, text) == "cannot_judge"


def test_what_it_cannot_judge_is_said() -> None:
    assert verdict("The shop opens at nine.", "Der Laden ist am Sonntag geschlossen.") == "cannot_judge"
    assert verdict("Ann is 40 and Ben is 38 years old.", "Ann is 2 years older than Ben.") == "cannot_judge"
    assert verdict("Das Geschäft ist am Sonntag geschlossen.", "The shop is closed on Sundays.") == "cannot_judge"


def test_the_visible_statement() -> None:
    seen = {
        "1. Parcels are **collected** within 14 days [1][2].": "Parcels are collected within 14 days.",
        "The fee¹ is ３０ euros【3†a】.": "The fee is 30 euros.",
        "See [the page](http://example.org/a) now.[^2]": "See the page now.",
        "The four\u00adteen dele-\ngates voted.": "The fourteen delegates voted.",
        "Rooms of 5 m² at 2*3*4 are x_1_y.": "Rooms of 5 m² at 2*3*4 are x_1_y.",
    }
    assert {text: visible(text)[0] for text in seen} == seen


@given(st.text(alphabet="ab1 .*_[]()^¹３\u00ad\u200b-\n`", max_size=60))
def test_offsets_lead_back_to_the_text(text: str) -> None:
    """Each visible character comes, folded, from its offset; offsets never fall (a property, no peer)."""
    seen, offsets = visible(text)
    assert len(offsets) == len(seen) + 1 and list(offsets) == sorted(offsets)
    for position, char in enumerate(seen):
        start, end = source_range(offsets, position, position + 1)
        assert text[start:end] in (char, "３" if char == "3" else char)


def test_numbers_in_one_spelling() -> None:
    same = ["1.250,50", "1,250.50", "1250,5", "1250.50", "1'250.50", "1 250,50"]
    assert {number_key(text) for text in same} == {"1250.5"}
    assert (number_key("1,250"), number_key("3,5"), number_key("007")) == ("1250", "3.5", "7")


def test_languages_are_told_by_their_frequent_words() -> None:
    texts = {"en": "The shop is closed on Sunday.", "de": "Der Laden ist am Sonntag zu.", "cjk": "商店周日关门。"}
    assert {language_of(text): text for text in texts.values()} == texts


def test_every_sentence_is_a_claim_or_has_a_reason() -> None:
    text = "# Title\n\nParking allowed. Is it so? 会议在3月9日举行。 Yes.\n\n```\ncode here\n```\n"
    listed = {text[start:end]: reason for start, end, reason in split_text(text)}
    assert [sentence for sentence, reason in listed.items() if not reason] == ["Parking allowed.", "会议在3月9日举行。"]
    assert {"heading", "question", "single word", "code"} == set(filter(None, listed.values()))


def test_quotes_and_terms_as_a_reader_sees_them() -> None:
    text = "Refunds are paid within four\u00adteen days of the can-\ncellation."
    span = find_quote("within fourteen days of the cancellation", text)
    assert span is not None and text[slice(*span)] == "within four\u00adteen days of the can-\ncellation"
    assert find_quote("within forty days", text) is None
    # Pairs of neighbours, as Lucene's CJKBigramFilter makes them.
    assert terms("公司总部 in 上海") == ["公司", "司总", "总部", "上海"]


WORDS = st.sampled_from(
    [
        "The",
        "the",
        "a",
        "Anna",
        "Keller",
        "Keller's",
        "it",
        "who",
        "which",
        "and",
        "but",
        ",",
        ";",
        "(",
        ")",
        ".",
        "not",
        "no",
        "only",
        "if",
        "unless",
        "more",
        "than",
        "less",
        "5",
        "5.5",
        "1,000",
        "km",
        "miles",
        "%",
        "$",
        "pm",
        "12:30",
        "May",
        "3",
        "1990",
        "third",
        "open",
        "closed",
        "was",
        "is",
        "are",
        "must",
        "may",
        "sold",
        "to",
        "by",
        "in",
        "with",
        "without",
        "except",
        "all",
        "most",
        "-LRB-",
        "-RRB-",
        "Scottish",
        "Scotland",
        "half",
        "none",
        "30-day",
        "dele-",
        "\n",
        "never",
        "or",
        "before",
        "after",
        "until",
        "Plan:",
        "Fee:",
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


@given(TEXTS, TEXTS)
def test_any_claim_over_any_text_has_a_verdict(document: str, claim: str) -> None:
    """A robustness property: no text raises, a span is in the claim, and a text carries itself where it is a statement."""
    passage = Passage("E1", "", document)
    evidence = build_evidence([passage])
    prediction = judge_statement(parse_statement(claim), evidence, [passage])
    assert prediction.unsupported_span in claim
    assert prediction.status != "supported" or prediction.sentences


DESCRIBED: dict[str, tuple[list[str], list[str]]] = {
    "The head of Google resigned.": ([], ["Google resigned."]),
    "The wife of the mayor was arrested.": (["The mayor's wife was arrested."], ["The mayor was arrested."]),
    "The son of Anna was arrested.": ([], ["Anna was arrested."]),
    "The brother of the king died in 1990.": ([], ["The king died in 1990."]),
    "The parents of the girl sued the school.": ([], ["The girl sued the school."]),
    "The man with the dog left the park.": ([], ["The dog left the park."]),
    "The house near the river was sold in 2010.": ([], ["The river was sold in 2010."]),
    "The road to London is closed.": ([], ["London is closed."]),
    "The mayor's wife was arrested.": (["The wife of the mayor was arrested."], ["The mayor was arrested."]),
    "The book about Napoleon was banned.": ([], ["Napoleon was banned."]),
    "A team of nurses treated the patients.": (["Nurses treated the patients."], []),
    "The city of Rome was founded in 753 BC.": (["Rome was founded in 753 BC."], []),
    "The University of Oxford was founded in 1096.": (["Oxford University was founded in 1096."], []),
    "The staff of the hospital was fired.": (["The hospital staff was fired."], []),
    "The price of a ticket is 20 euros.": (["A ticket costs 20 euros."], []),
    "The capital of France is Paris.": (["Paris is the capital of France."], []),
    "Ann Lee, CEO of Acme, resigned.": ([], ["Acme resigned."]),
    "Members of the board approved the plan.": ([], ["The board approved the plan."]),
    "The length of the bridge is 300 metres.": (["The bridge is 300 metres long."], []),
    "The age of the tree is 300 years.": (["The tree is 300 years old."], []),
    "The deadline for applications is 5 May.": (
        ["The application deadline is 5 May."],
        ["Applications are due on 5 May."],
    ),
    "The number of visitors rose in 2020.": (["Visitors rose in 2020."], []),
    "The author of the book is Ann Lee.": (["Ann Lee is the author of the book."], []),
    "Employees of the bank get 20 days of leave.": (
        ["Bank employees get 20 days of leave."],
        ["The bank gets 20 days of leave."],
    ),
    "In the shop, the clerk was robbed.": ([], ["The shop was robbed."]),
    "The opening of the museum took place in 2010.": (["The museum opened in 2010."], []),
    "The attack on Rome failed.": ([], ["Rome failed."]),
    "The lawyer for Acme won the case.": ([], ["Acme won the case."]),
    "The use of phones is banned.": (["Phones are banned."], []),
    "A report by Acme was published.": ([], ["Acme was published."]),
    "A man from Paris won the race.": ([], ["Paris won the race."]),
    "Customers in Spain pay 5 euros.": ([], ["Spain pays 5 euros."]),
    "The founder of Ikea died in 2018.": ([], ["Ikea died in 2018."]),
    "The daughter of Tom Reed won the race.": ([], ["Tom Reed won the race."]),
    "The fall of the wall came in 1989.": ([], ["The wall came in 1989."]),
    "Refunds for members are paid monthly.": ([], ["Members are paid monthly."]),
    "The right of access is limited.": ([], ["Access is limited."]),
    "Sales of the phone fell in 2020.": ([], ["The phone fell in 2020."]),
    "The CEO of Acme, Ann Lee, resigned.": (["Ann Lee resigned."], ["Acme resigned."]),
    "Tom Reed married the daughter of the king.": ([], ["Tom Reed married the king."]),
    "Ann Lee sold the roof of the house.": ([], ["Ann Lee sold the house."]),
    "Ann Lee met the lawyer for Acme.": ([], ["Ann Lee met Acme."]),
    "Acme bought shares in Bolt.": ([], ["Acme bought Bolt."]),
    "Ann Lee visited the museum near the river.": ([], ["Ann Lee visited the river."]),
    "The song was written by the son of Tom Reed.": ([], ["The song was written by Tom Reed."]),
    "The song was written by the brother of the singer.": ([], ["The song was written by the singer."]),
    "The school bus crashed in May.": ([], ["The school crashed in May."]),
    "The cat food was sold in 2010.": ([], ["The cat was sold in 2010."]),
    "The bank manager was fired.": ([], ["The bank was fired."]),
    "Tom Reed painted the wall of the shop.": ([], ["Tom Reed painted the shop."]),
    "Acme hired the coach of Ajax.": ([], ["Acme hired Ajax."]),
    "Norway beat the coach of Denmark.": ([], ["Norway beat Denmark."]),
    "Ann Lee was born to the mayor of Rome.": ([], ["Ann Lee was born in Rome."]),
    "Ann Lee joined the board of Acme.": ([], ["Ann Lee joined Acme."]),
    "Ann Lee read a book about Rome.": (["Ann Lee read about Rome."], []),
    "The police arrested the wife of the mayor.": ([], ["The police arrested the mayor."]),
    "The police arrested the mayor's wife.": (
        [],
        ["The police arrested the mayor.", "The police arrested the mayor's."],
    ),
    "The bank closed the account of the customer.": (
        ["The bank closed the account."],
        ["The bank closed the customer."],
    ),
    "Acme makes parts for cars.": ([], ["Acme makes cars."]),
    "Acme makes car parts.": ([], ["Acme makes cars."]),
    "Acme sells tickets to museums.": ([], ["Acme sells museums."]),
    "Ann Lee teaches the history of art.": ([], ["Ann Lee teaches art."]),
    "Ann Lee teaches art history.": ([], ["Ann Lee teaches art."]),
    "The film stars the brother of Tom Reed.": ([], ["The film stars Tom Reed."]),
    "The film was directed by the husband of Ann Lee.": ([], ["Ann Lee directed the film."]),
    "The film was directed by a friend of Ann Lee.": ([], ["The film was directed by Ann Lee."]),
    "The drug treats the symptoms of flu.": ([], ["The drug treats flu."]),
    "The drug kills the cells of the tumour.": ([], ["The drug kills the tumour."]),
    "Rome is the capital of Italy.": ([], ["Rome is Italy."]),
    "Tom Reed is the son of the king.": ([], ["Tom Reed is the king."]),
    "Tom Reed is the king's son.": ([], ["Tom Reed is the king."]),
    "Tom Reed is a friend of Ann Lee.": ([], ["Tom Reed is Ann Lee."]),
    "Tom Reed is the head of a school.": ([], ["Tom Reed is a school."]),
    "Bolt is a maker of phones.": ([], ["Bolt is a phone."]),
    "Bolt is a phone maker.": ([], ["Bolt is a phone."]),
    "Ajax is a club in Rome.": (["Ajax is in Rome."], []),
    "The book was a gift from the queen.": (["The book was from the queen."], ["The book was a queen."]),
    "The fee for the course is 50 euros.": (["The course fee is 50 euros."], []),
    "The fee for late payment is 50 euros.": ([], ["The payment is 50 euros."]),
    "Ann Lee won the race against Tom Reed.": (["Ann Lee won against Tom Reed."], []),
    "The firm supplies water to the town.": (["The firm supplies the town with water."], []),
    "The firm supplies the town with water.": (["The firm supplies water to the town."], []),
    "Ann Lee gave Tom Reed a book.": ([], ["Tom Reed gave Ann Lee a book."]),
    "Ann Lee gave a book to Tom Reed.": (["Ann Lee gave Tom Reed a book."], []),
    "Ann Lee told Tom Reed that the shop had closed.": ([], ["Tom Reed told Ann Lee that the shop had closed."]),
    "The manager of the shop said the price was fair.": ([], ["The shop said the price was fair."]),
    "Ann Lee bought a house in Rome.": ([], ["Ann Lee bought Rome."]),
    "Acme built the tower of the church in 1900.": ([], ["Acme built the church in 1900."]),
    "Ann Lee studied the effects of coffee on sleep.": ([], ["Ann Lee studied sleep."]),
    "Coffee reduces the risk of stroke.": ([], ["Coffee reduces strokes."]),
    "The law bans the sale of alcohol.": ([], ["The law bans alcohol."]),
    "The law bans the use of phones.": (["The law bans phones."], []),
    "The price of oil fell.": ([], ["Oil fell."]),
    "The oil price fell.": ([], ["Oil fell."]),
    "Oil prices fell in May.": ([], ["Oil fell in May."]),
    "House sales rose in May.": ([], ["Houses rose in May."]),
    "The shop is near Rome.": ([], ["The shop is in Rome."]),
    "The shop is outside Rome.": ([], ["The shop is in Rome."]),
    "The shop is next to the bank.": ([], ["The shop is in the bank."]),
    "The shop is behind the bank.": ([], ["The shop is in the bank."]),
    "Ann Lee lives north of Rome.": ([], ["Ann Lee lives in Rome."]),
    "Ann Lee tried to climb the tower.": ([], ["Ann Lee climbed the tower."]),
    "Ann Lee nearly won the race.": ([], ["Ann Lee won the race."]),
    "Ann Lee almost won the race.": ([], ["Ann Lee won the race."]),
    "Tom Reed said that Acme had closed.": ([], ["Acme had closed."]),
    "Tom Reed claims Acme has closed.": ([], ["Acme has closed."]),
    "Acme allegedly bribed the mayor.": ([], ["Acme bribed the mayor."]),
    "It is rumoured that Acme will close.": ([], ["Acme will close."]),
    "Tom Reed denied that Acme had closed.": ([], ["Acme had closed."]),
    "Tom Reed doubts that Acme has closed.": ([], ["Acme has closed."]),
    "Critics say the drug is useless.": ([], ["The drug is useless."]),
    "The plan to close the school was dropped.": ([], ["The school was closed."]),
    "Acme considered closing the plant.": ([], ["Acme closed the plant."]),
    "Acme is expected to close the plant.": ([], ["Acme closed the plant."]),
    "Acme was about to close the plant.": ([], ["Acme closed the plant."]),
    "Acme promised to pay the workers.": ([], ["Acme paid the workers."]),
    "Acme agreed to buy Bolt.": ([], ["Acme bought Bolt."]),
    "Acme offered to buy Bolt.": ([], ["Acme bought Bolt."]),
    "Acme's bid to buy Bolt failed.": ([], ["Acme bought Bolt."]),
    "Acme wanted Bolt to pay the tax.": ([], ["Bolt paid the tax."]),
    "Acme asked Bolt to leave the market.": ([], ["Bolt left the market."]),
    "Acme forced Bolt to leave the market.": (["Bolt left the market."], []),
    "If it rains, the pool closes.": ([], ["The pool closes."]),
    "Unless it rains, the pool opens at 9.": ([], ["The pool opens at 9."]),
    "The pool would close if it rained.": ([], ["The pool closes."]),
    "The pool closes when it rains.": ([], ["The pool closes."]),
    "The pool opens at 9 except on Sundays.": ([], ["The pool opens at 9."]),
    "The pool opens at 9 on weekdays.": ([], ["The pool opens at 9."]),
    "The school used to open at 8.": ([], ["The school opens at 8."]),
    "The school will open in 2030.": ([], ["The school opened in 2030."]),
    "Ann Lee might have stolen the ring.": ([], ["Ann Lee stole the ring."]),
    "Ann Lee was accused of stealing the ring.": ([], ["Ann Lee stole the ring."]),
    "Ann Lee was cleared of stealing the ring.": ([], ["Ann Lee stole the ring."]),
    "Ann Lee is suspected of theft.": ([], ["Ann Lee is a thief."]),
    "The fake doctor was jailed.": ([], ["The doctor was jailed."]),
    "A former mayor opened the bridge.": ([], ["The mayor opened the bridge."]),
    "The vice president signed the law.": ([], ["The president signed the law."]),
    "The deputy mayor resigned.": ([], ["The mayor resigned."]),
    "The assistant manager resigned.": ([], ["The manager resigned."]),
    "The ex-mayor resigned.": ([], ["The mayor resigned."]),
    "The acting head resigned.": ([], ["The head resigned."]),
    "The alleged killer fled.": ([], ["The killer fled."]),
    "The attempted murder shocked the town.": ([], ["The murder shocked the town."]),
    "The planned tower is 300 metres tall.": ([], ["The tower is 300 metres tall."]),
    "Few members voted.": ([], ["Members voted."]),
    "Hardly any members voted.": ([], ["Members voted."]),
    "No more than 10 members voted.": ([], ["More than 10 members voted."]),
    "Acme sold half of its shops.": ([], ["Acme sold its shops."]),
    "Acme sold 40 of its shops.": ([], ["Acme sold its shops."]),
    "Acme sold part of the farm.": ([], ["Acme sold the farm."]),
    "Acme sold the rest of the farm.": ([], ["Acme sold the farm."]),
    "One of the players left the club.": ([], ["The players left the club."]),
    "Most of the players left the club.": ([], ["The players left the club."]),
    "Some of the players left the club.": ([], ["All the players left the club."]),
    "None of the players left the club.": ([], ["The players left the club."]),
    "Neither Ann nor Tom left.": ([], ["Ann left."]),
    "Not only Ann but also Tom left.": (["Tom left."], []),
    "Ann left without Tom.": ([], ["Tom left."]),
    "Ann left instead of Tom.": ([], ["Tom left."]),
    "Everyone but Tom left.": ([], ["Tom left."]),
    "Ann, unlike Tom, left.": ([], ["Tom left."]),
    "Ann is taller than Tom.": ([], ["Tom is taller than Ann."]),
    "Ann earns less than Tom.": ([], ["Ann earns more than Tom."]),
    "Sales rose from 5 to 8 million.": ([], ["Sales rose from 8 to 5 million."]),
    "Ann gave up the title.": ([], ["Ann gave the title."]),
    "Ann gave up smoking.": ([], ["Ann smokes."]),
    "Ann stopped smoking in 2010.": ([], ["Ann smoked in 2010."]),
    "Ann failed to pay the rent.": ([], ["Ann paid the rent."]),
    "Ann forgot to pay the rent.": ([], ["Ann paid the rent."]),
    "Ann pretended to be ill.": ([], ["Ann was ill."]),
    "Ann dreamed that she won the race.": ([], ["Ann won the race."]),
    "Ann hopes to win the race.": ([], ["Ann won the race."]),
    "Ann was told that the shop was closed.": ([], ["The shop was closed."]),
    "In the novel, the mayor kills the king.": ([], ["The mayor kills the king."]),
    "The myth says the king ate his sons.": ([], ["The king ate his sons."]),
    "Is the shop open?": ([], ["The shop is open."]),
    "Born in Rome, Ann Lee left and Tom Reed came.": (["Ann Lee was born in Rome."], ["Tom Reed was born in Rome."]),
    "Prescott, Arizona, is a city.": (
        ["Prescott is a city.", "Prescott is in Arizona."],
        ["Arizona is a city.", "Arizona is in Prescott."],
    ),
    "Prescott is a city in Arizona.": (["Prescott, Arizona, is a city."], ["Prescott, Texas, is a city."]),
    "Timothy Simon Roth is an English actor.": (["Tim Roth is an English actor."], ["Tom Roth is an English actor."]),
    "Kenneth (Babyface) Edmonds sang. Edmonds produced Soul Food.": (
        ["Kenneth Edmonds produced Soul Food."],
        ["Tracey Edmonds produced Soul Food."],
    ),
    "United Airlines is an American airline. The play by Noël Coward has three acts.": (
        ["United Airlines is an airline.", "The play by Noel Coward has three acts."],
        [],
    ),
    "Anne Macy (April 14 , 1866 -- October 20 , 1936) was a teacher.": (
        ["Anne Macy was born in April of 1866."],
        ["Anne Macy was born in October of 1936."],
    ),
    "Rome is one of the largest cities in Europe.": ([], ["Rome is the largest city in Europe."]),
    "Rome is the second largest city in Europe.": ([], ["Rome is the largest city in Europe."]),
    "Rome is among the oldest cities in Italy.": ([], ["Rome is the oldest city in Italy."]),
    "The fee is 5 euros per month.": ([], ["The fee is 5 euros per year.", "The fee is 5 euros."]),
    "The fee is 5 euros a month.": (["The monthly fee is 5 euros."], []),
    "Members pay 5 euros a month.": ([], ["Members pay 5 euros."]),
    "Up to 20 people may attend.": ([], ["20 people attended."]),
    "At least 20 people attended.": ([], ["20 people attended."]),
    "About 20 people attended.": ([], ["Exactly 20 people attended."]),
    "Between 20 and 30 people attended.": ([], ["30 people attended."]),
    "Sales rose by 5 percent.": ([], ["Sales rose to 5 percent."]),
    "Sales rose to 5 million.": ([], ["Sales rose by 5 million."]),
    "Sales fell from 8 to 5 million.": (["Sales fell to 5 million."], ["Sales fell to 8 million."]),
    "The rate rose by 2 percentage points.": ([], ["The rate rose by 2 percent."]),
    "The course takes 5 weeks.": ([], ["The course takes 5 months."]),
    "The shop opens at 9 am and closes at 6 pm.": ([], ["The shop opens at 6 pm."]),
    "The shop is open from 9 to 6.": (["The shop opens at 9."], []),
    "The train leaves at 9 and arrives at 11.": ([], ["The train arrives at 9."]),
    "Ann won gold in 2010 and silver in 2014.": (["Ann won silver in 2014."], ["Ann won gold in 2014."]),
    "Ann was born in Rome and died in Oslo.": ([], ["Ann died in Rome.", "Ann was born in Oslo."]),
    "Tom and Ann live in Rome and Oslo respectively.": ([], ["Tom lives in Oslo."]),
    "Tom lives in Rome, Ann in Oslo.": ([], ["Ann lives in Rome."]),
    "Tom plays chess; Ann plays golf.": ([], ["Ann plays chess."]),
    "Tom, not Ann, won the race.": ([], ["Ann won the race."]),
    "Tom won the race, not Ann.": ([], ["Ann won the race."]),
    "Not all members voted.": ([], ["All members voted."]),
    "Not every shop is open.": ([], ["Every shop is open."]),
    "No member voted against the plan.": ([], ["Members voted against the plan."]),
    "The plan was not approved by all members.": ([], ["The plan was approved by all members."]),
    "The drug cures flu but not colds.": ([], ["The drug cures colds."]),
    "The drug cures neither flu nor colds.": ([], ["The drug cures flu."]),
    "The drug, which does not cure flu, is cheap.": ([], ["The drug cures flu."]),
    "The man who shot the king was jailed.": (["The man was jailed."], ["The king was jailed."]),
    "The dog that bit the boy ran away.": ([], ["The boy ran away."]),
    "The firm that Bolt bought is in Rome.": ([], ["Bolt is in Rome."]),
    "The firm that bought Bolt is in Rome.": ([], ["Bolt is in Rome."]),
    "Ann, whose brother is a judge, lives in Rome.": ([], ["Ann is a judge."]),
    "Ann's brother, a judge, lives in Rome.": ([], ["Ann is a judge.", "Ann lives in Rome."]),
    "The brother of Ann, a judge, lives in Rome.": ([], ["Ann is a judge."]),
    "Acme, a rival of Bolt, makes phones.": ([], ["Bolt makes phones."]),
    "Acme, founded by Tom Reed, makes phones.": ([], ["Tom Reed makes phones."]),
    "Acme makes phones, and its rival Bolt makes cars.": ([], ["Acme makes cars."]),
    "Acme sued Bolt over a patent.": ([], ["Bolt sued Acme over a patent."]),
    "Acme sued Bolt over a patent and won.": ([], ["Bolt won."]),
    "Before she moved to Rome, Ann lived in Oslo.": ([], ["Ann lived in Rome before she moved to Oslo."]),
    "Ann lived in Oslo until 2010.": ([], ["Ann lived in Oslo since 2010."]),
    "Ann has lived in Oslo since 2010.": ([], ["Ann lived in Oslo until 2010."]),
    "Ann left Oslo in 2010.": ([], ["Ann moved to Oslo in 2010."]),
    "Ann moved from Oslo to Rome.": ([], ["Ann moved from Rome to Oslo."]),
    "The bridge links Rome and Oslo.": (["The bridge links Oslo and Rome."], []),
    "The first bridge was built in 1900, the second in 1950.": ([], ["The second bridge was built in 1900."]),
    "The old bridge was built in 1900.": ([], ["The new bridge was built in 1900."]),
    "The bridge was rebuilt in 1950.": ([], ["The bridge was built in 1950."]),
    "The shop reopened in 2010.": ([], ["The shop opened in 2010."]),
    "The law was repealed in 2010.": ([], ["The law was passed in 2010."]),
    "Ann co-wrote the song with Tom.": ([], ["Ann wrote the song."]),
    "Ann misread the sign.": ([], ["Ann read the sign."]),
    "The firm underreported its income.": ([], ["The firm reported its income."]),
    "The song was not a hit in Spain.": ([], ["The song was a hit in Spain."]),
    "The song was a hit everywhere but in Spain.": ([], ["The song was a hit in Spain."]),
    "The song was a hit outside Spain.": ([], ["The song was a hit in Spain."]),
    "The song was written in Spain by an Italian.": ([], ["The song was written in Italy."]),
    "The tax applies to firms with more than 50 staff.": ([], ["The tax applies to firms with 50 staff."]),
    "Unlike Acme, Bolt pays taxes.": ([], ["Acme pays taxes."]),
    "Compared with Acme, Bolt is small.": ([], ["Acme is small."]),
    "Bolt is bigger than Acme.": ([], ["Acme is bigger than Bolt."]),
    "Bolt has fewer staff than Acme.": ([], ["Bolt has more staff than Acme."]),
    "Bolt has twice as many staff as Acme.": ([], ["Acme has twice as many staff as Bolt."]),
    "Ann replaced Tom as head.": ([], ["Tom replaced Ann as head."]),
    "Ann succeeded Tom as head.": (["Tom was succeeded by Ann as head."], []),
    "Ann taught Tom to swim.": ([], ["Tom taught Ann to swim."]),
    "Ann was beaten by Tom.": ([], ["Ann beat Tom."]),
    "Ann lent Tom 50 euros.": ([], ["Tom lent Ann 50 euros."]),
    "Ann borrowed 50 euros from Tom.": ([], ["Tom borrowed 50 euros from Ann."]),
    "Ann Lee met Tom Reed in Rome. He was born in Oslo.": ([], ["Ann Lee was born in Oslo."]),
    "Tom Reed hired Ann Lee. She was born in Oslo.": ([], ["Tom Reed was born in Oslo."]),
    "Acme bought Bolt in 2010. It was founded in 1990.": ([], ["Acme was founded in 1990."]),
    "Acme bought Bolt in 2010. The company was founded in 1990.": ([], ["Bolt was founded in 1990."]),
    "Acme makes phones. It was founded in 1990.": (["Acme was founded in 1990."], []),
    "The old mill burned down. The new mill has two floors.": ([], ["The old mill has two floors."]),
    "The king had a son. He died in 1900.": ([], ["The king died in 1900."]),
    "Ann's mother was a nurse. She worked in Rome.": ([], ["Ann worked in Rome."]),
    "Rome is in Italy. Its rival Milan has a port.": ([], ["Rome has a port."]),
    "Rome is in Italy. Its mayor is Ann Lee.": (["The mayor of Rome is Ann Lee."], ["The mayor of Italy is Ann Lee."]),
    "The bank hired Ann Lee. Her brother is a judge.": ([], ["Ann Lee is a judge."]),
    "Tom Reed and Ann Lee founded Acme. They left it in 2010.": (["Tom Reed left Acme in 2010."], []),
    "Tom Reed founded Acme. Ann Lee ran it. She left in 2010.": ([], ["Tom Reed left in 2010."]),
    "Acme has two plants. One is in Rome, the other in Oslo.": ([], ["Acme is in Oslo."]),
    "The red bus goes to Rome. The blue bus goes to Oslo.": ([], ["The red bus goes to Oslo."]),
    "Plan A costs 5 euros. Plan B costs 9 euros.": ([], ["Plan A costs 9 euros."]),
    "Plan A costs 5 euros. Plan B costs 9 euros. It includes support.": ([], ["Plan A includes support."]),
    "Members get 10 percent off. Guests pay the full price.": ([], ["Guests get 10 percent off."]),
    "In 1990 the shop opened. In 2000 it moved to Rome.": (
        ["The shop moved to Rome in 2000."],
        ["The shop moved to Rome in 1990."],
    ),
    "The film was shot in Rome. Its budget was 5 million euros.": (["The budget of the film was 5 million euros."], []),
    "Tom Reed wrote the book. The critic Ann Lee praised it.": ([], ["Ann Lee wrote the book."]),
    "The dog bit the postman. He was taken to hospital.": ([], ["The dog was taken to hospital."]),
    "Norway beat Denmark. It was their first win.": ([], ["Denmark's first win was against Norway."]),
    "Ann Lee sold the farm to Tom Reed. He lives there with his wife.": ([], ["Ann Lee lives there with her wife."]),
    "The law was passed in 1990. This was 10 years after the war.": ([], ["The war was in 1990."]),
    "Who may vote? Members may vote. Guests may not.": ([], ["Guests may vote."]),
    "Is the pool open on Sunday? No.": ([], ["The pool is open on Sunday."]),
    "Myth: The pool is closed on Sunday. Fact: It is open.": ([], ["The pool is closed on Sunday."]),
    "It is wrong to say that the pool is closed.": ([], ["The pool is closed."]),
    "The pool was closed. It has been open since May.": ([], ["The pool is closed."]),
    "Until 2010 the pool was free. Now a ticket costs 5 euros.": ([], ["The pool is free."]),
    "The pool is not open on Sunday. On Monday it is.": ([], ["The pool is open on Sunday."]),
    "Dogs are allowed in the park. Cats are not.": ([], ["Cats are allowed in the park."]),
    "Example: A member pays 5 euros.": (["A member pays 5 euros."], []),
    "Draft: The fee is 5 euros.": ([], ["The fee is 5 euros."]),
    "Ann Lee (not her sister) won the race.": ([], ["Her sister won the race."]),
    "Ann Lee (Rome) beat Eva Roth (Oslo).": ([], ["Ann Lee is from Oslo."]),
    "Ann Lee [sic] won.": (["Ann Lee won."], []),
    "*Ann Lee* won the ~~first~~ second race.": ([], ["Ann Lee won the first race."]),
    "The fee is ~~5~~ 6 euros.": ([], ["The fee is 5 euros."]),
    "The shop is open: Monday to Friday 9–6, Saturday 9–1.": ([], ["The shop is open on Saturday from 9 to 6."]),
    "Open Monday, Tuesday and Friday.": ([], ["Open on Wednesday."]),
    "Open Monday to Friday.": ([], ["Open on Saturday."]),
    "All rooms but 12 have a bath.": ([], ["Room 12 has a bath."]),
    "Rooms 1 to 9 have a bath.": ([], ["Room 12 has a bath."]),
    "Ann or Tom will win the race.": ([], ["Ann will win the race."]),
    "Either Acme or Bolt makes the phone.": ([], ["Acme makes the phone."]),
    "Guests may choose tea or coffee.": (["Guests may choose tea."], []),
    "The fee is 5 or 6 euros.": ([], ["The fee is 5 euros."]),
    "The book was written by Ann Lee or Tom Reed.": ([], ["The book was written by Ann Lee."]),
    "To cut costs, Acme closed the plant.": ([], ["Acme cut costs."]),
    "Acme closed the plant to cut costs.": ([], ["Acme cut costs."]),
    "Acme closed the plant so that costs would fall.": ([], ["Costs fell."]),
    "Because sales fell, Acme closed the plant.": (["Sales fell."], []),
    "Acme closed the plant in order to save 5 million euros.": ([], ["Acme saved 5 million euros."]),
    "The tower looks as if it were made of gold.": ([], ["The tower is made of gold."]),
    "I wish the shop were open.": ([], ["The shop is open."]),
    "Had Ann left, Tom would have won.": ([], ["Tom won."]),
    "Without the storm, Ann would have won the race.": ([], ["Ann won the race."]),
    "Ann would have won the race.": ([], ["Ann won the race."]),
    "Ann could have won the race.": ([], ["Ann won the race."]),
    "Ann should have paid the fee.": ([], ["Ann paid the fee."]),
    "The city is named after Tom Reed.": ([], ["The city is named Tom Reed."]),
    "The town, formerly known as Lund, is called Rome.": ([], ["The town is called Lund."]),
    "The shop was renamed Bolt in 2010.": ([], ["The shop was named Bolt before 2010."]),
    "The film is based on a novel by Ann Lee.": ([], ["The film is by Ann Lee.", "Ann Lee wrote the film."]),
    "The song was inspired by a poem by Tom Reed.": ([], ["The song was written by Tom Reed."]),
    "The drug is similar to aspirin.": ([], ["The drug is aspirin."]),
    "The drug contains no sugar.": ([], ["The drug contains sugar."]),
    "The drink is free of sugar.": ([], ["The drink contains sugar."]),
    "The drink is sugar-free.": ([], ["The drink contains sugar."]),
    "The suit is waterproof.": ([], ["The suit is water."]),
    "Ann is the daughter-in-law of Tom Reed.": ([], ["Ann is the daughter of Tom Reed."]),
    "Ann is Tom's half-sister.": ([], ["Ann is Tom's sister."]),
    "Ann is the granddaughter of Tom Reed.": ([], ["Ann is the daughter of Tom Reed."]),
    "Ann is Tom's stepdaughter.": ([], ["Ann is Tom's daughter."]),
    "Ann is the great-aunt of Tom.": ([], ["Ann is the aunt of Tom."]),
    "As a child, Ann lived in Oslo.": ([], ["Ann is a child."]),
    "As mayor, Tom opened the bridge.": (["Tom opened the bridge."], []),
    "Ann played the queen in the film.": ([], ["Ann was the queen."]),
    "Ann starred as a doctor.": ([], ["Ann is a doctor."]),
    "Ann studied to become a judge.": ([], ["Ann became a judge."]),
    "Ann trained as a pilot but became a judge.": ([], ["Ann became a pilot."]),
    "The museum shows works by Ann Lee and Tom Reed.": (["The museum shows works by Tom Reed."], []),
    "Ann Lee and Tom Reed were married.": (["Ann Lee was married to Tom Reed."], []),
    "Ann Lee divorced Tom Reed in 2010.": ([], ["Ann Lee married Tom Reed in 2010."]),
    "Ann Lee's marriage to Tom Reed ended in 2010.": ([], ["Ann Lee married Tom Reed in 2010."]),
    "The vote was 12 to 8 against the plan.": ([], ["The vote was 12 to 8 for the plan."]),
    "The plan was rejected by 12 votes to 8.": ([], ["The plan was approved by 12 votes to 8."]),
    "Ajax lost 2–1 to Bayer.": ([], ["Ajax won 2–1 against Bayer."]),
    "Ajax beat Bayer 2–1.": ([], ["Bayer beat Ajax 2–1."]),
    "Ajax lost to Bayer in the final.": ([], ["Ajax won the final."]),
    "Ajax reached the final.": ([], ["Ajax won the final."]),
    "Ajax played in the final.": ([], ["Ajax won the final."]),
    "The train is due at 9.": ([], ["The train arrived at 9."]),
    "The deadline was extended from May to June.": ([], ["The deadline is May."]),
    "The price was cut from 9 to 5 euros.": ([], ["The price is 9 euros."]),
    "The name was changed from Acme to Bolt.": ([], ["The name is Acme."]),
    "The limit was raised to 50 from 30.": ([], ["The limit was raised to 30."]),
    "Ann was 30 when she moved to Rome in 2010.": ([], ["Ann was 30 in 2020."]),
    "Ann, 30, lives in Rome.": (["Ann is 30."], []),
    "Ann was born 30 years after the war.": ([], ["Ann is 30."]),
    "The war ended 30 years ago.": ([], ["The war lasted 30 years."]),
    "After 30 years the war ended.": ([], ["The war ended after 30 days."]),
    "Cats, dogs and birds are pets; snakes are not.": ([], ["Snakes are pets."]),
    "Fruits such as apples contain sugar.": (["Apples contain sugar."], []),
    "Apples, unlike nuts, contain sugar.": ([], ["Nuts contain sugar."]),
    "Apples contain more sugar than nuts.": ([], ["Nuts contain more sugar than apples."]),
    "Apples are cheaper than pears.": ([], ["Pears are cheaper than apples."]),
    "Pears are not as cheap as apples.": ([], ["Pears are as cheap as apples."]),
    "The firm hired 50 staff and fired 20.": ([], ["The firm fired 50 staff.", "The firm hired 20 staff."]),
    "50 of 80 firms replied.": ([], ["80 firms replied."]),
    "3 in 10 adults smoke.": ([], ["10 adults smoke."]),
    "One in three adults smokes.": ([], ["Three adults smoke."]),
    "Half of the 80 firms replied.": ([], ["80 firms replied."]),
    "80 percent of the firms replied.": ([], ["80 firms replied."]),
    "The door must be locked at night.": ([], ["The door must not be locked at night."]),
    "The door need not be locked.": ([], ["The door must be locked."]),
    "The door should be locked.": ([], ["The door is locked."]),
    "Please do not lock the door.": ([], ["The door is locked."]),
    "Never lock the door.": ([], ["The door is locked."]),
    "The door can be locked.": ([], ["The door is locked."]),
    "Children under 6 travel free.": (
        ["Children under 6 travel free."],
        ["Children travel free.", "Children over 6 travel free."],
    ),
    "The show was a great success in Rome.": (["The show was a success in Rome."], []),
    "The grand opening took place in May.": (["The opening took place in May."], []),
    "The bridge is 300 metres / 984 feet long.": (["The bridge is 300 metres long."], []),
    "The United States Congress passed the act in 1990.": (["Congress passed the act in 1990."], []),
}
"""Sentences, the claims that they carry, and claims that say of a word what the sentence says of another one (whose wife,
roof, price or founder it is), or what it only reports, denies, plans or says of a part, of another amount, order or owner, or of whom a pronoun
does not mean."""


@pytest.mark.parametrize("document", DESCRIBED)
def test_what_is_said_of_a_thing_is_not_said_of_what_describes_it(document: str) -> None:
    true, false = DESCRIBED[document]
    assert {claim: verdict(document, claim) for claim in true} == dict.fromkeys(true, "supported")
    assert {claim: verdict(document, claim) for claim in false if verdict(document, claim) == "supported"} == {}


# Of true claims none is called false because a name or a value is also elsewhere in the text.
NOT_CONTRADICTED = [
    (
        "Liverpool's status as a destination grew with The Beatles.",
        "Liverpool is a destination because of The Beatles.",
    ),
    ("In 1986, O'Neal married John McEnroe, with whom she had three children.", "Tatum O'Neal had children."),
    ("The album sold 100,000 copies in the United States.", "Artpop only sold about 100,000 copies."),
    ("Libya is a country in the European continent.", "Libya is a country in Europe."),
    ("SpongeBob is a French series created by Stephen Hillenburg.", "SpongeBob is not an American series."),
    ("Daggering is a form of dance originating from Jamaica.", "Daggering originated in Jamaica."),
]


@pytest.mark.parametrize(("document", "claim"), NOT_CONTRADICTED)
def test_a_word_elsewhere_in_the_text_is_no_contradiction(document: str, claim: str) -> None:
    assert verdict(document, claim) != "contradicted"

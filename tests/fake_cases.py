"""Documents made up for `fake_runs`, with questions, and answers by verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One document with a question, and the answers that may be given to it by verdict."""

    domain: str
    question: str
    passages: tuple[tuple[str, str], ...]
    facts: tuple[tuple[int, str], ...]
    answers: dict[str, tuple[str, str, str, str]]
    """verdict -> (answer, unsupported span, corruption, reason)"""


CASES = (
    Case(
        "company policies",
        "When is a reimbursement above the standard limit paid, and what must the employee supply?",
        (
            (
                "Travel and Expense Policy › 2 Standard limits",
                "Employees may claim meals of up to USD 60 a day and lodging of up to USD 210 a night without prior "
                "approval. Receipts are kept for seven years. Mileage is reimbursed at the federal rate in force on the "
                "day of travel.",
            ),
            (
                "Travel and Expense Policy › 3 Claims above the limit",
                "A claim above the standard limit is paid only after the department head has approved it in writing. "
                "The approval names the cost centre that carries the difference. A claim without an approval is paid up "
                "to the limit and the rest is returned to the employee with a note of the missing document.",
            ),
            (
                "Travel and Expense Policy › 4 Deadlines",
                "Claims are submitted within 30 days after the end of the trip. Approved claims are paid within 15 "
                "business days of submission, or with the next payroll run where that is later. Claims that arrive "
                "after the 30 days are paid only if the delay was outside the employee's control.",
            ),
            (
                "Procurement Handbook › 1 Scope",
                "This handbook governs purchases of goods and services from outside suppliers. It does not apply to "
                "travel, to payroll, or to grants that the company makes to others.",
            ),
            (
                "Travel and Expense Policy › 6 Advances",
                "A cash advance is available for trips of more than ten days. It is settled against the first claim "
                "that follows, and any surplus is repaid within five business days.",
            ),
        ),
        (
            (1, "A claim above the standard limit is paid only after the department head has approved it in writing."),
            (
                2,
                "Approved claims are paid within 15 business days of submission, or with the next payroll run where that is later.",
            ),
        ),
        {
            "supported": (
                "A claim above the limit needs the department head's written approval. Once approved, it is paid within 15 business days or with the next payroll run.",
                "",
                "none",
                "Both statements restate the policy.",
            ),
            "contradicted": (
                "A claim above the limit needs the department head's written approval. Once approved, it is paid within 10 business days of submission.",
                "within 10 business days",
                "number",
                "The policy sets 15 business days, not 10.",
            ),
            "overclaim": (
                "Every claim above the limit is paid as long as receipts are attached, and always within 15 business days.",
                "Every claim above the limit is paid as long as receipts are attached",
                "scope",
                "The policy pays such claims only after written approval.",
            ),
            "partially_supported": (
                "A claim above the limit needs the department head's written approval. The employee must also attach two competing quotations.",
                "attach two competing quotations",
                "addition",
                "Nothing in the documents asks for quotations.",
            ),
            "unsupported": (
                "Claims above the limit are reviewed each quarter by the audit committee of the board.",
                "reviewed each quarter by the audit committee",
                "irrelevant_citation",
                "No passage mentions an audit committee.",
            ),
        },
    ),
    Case(
        "privacy and security",
        "How soon are customers told of a personal data breach, and by whom?",
        (
            (
                "Incident Response Standard › Classification",
                "An incident is severity 1 when personal data of more than 500 people has left our control, severity 2 "
                "when it may have, and severity 3 otherwise. The on-call engineer assigns the first severity; the "
                "security lead may change it.",
            ),
            (
                "Incident Response Standard › Notification",
                "The Data Protection Officer notifies affected customers without undue delay and no later than 72 hours "
                "after a severity 1 incident has been confirmed. The notice names the categories of data, the likely "
                "consequences, and the measures taken. For severity 2 the officer decides whether a notice is due.",
            ),
            (
                "Vendor Security Requirements › 4.2",
                "Vendors report a suspected incident to us within 24 hours of discovery by telephone and in writing. "
                "The clock of our own notification starts when we have confirmed the vendor's report.",
            ),
            (
                "Retention Schedule",
                "Access logs are kept for 13 months and then deleted. Backups follow the same schedule with a lag of "
                "at most 35 days.",
            ),
            (
                "Acceptable Use Policy › Devices",
                "Company data is stored on encrypted devices only. Lost devices are reported to the service desk on the "
                "day on which the loss is noticed.",
            ),
        ),
        (
            (
                1,
                "The Data Protection Officer notifies affected customers without undue delay and no later than 72 hours after a severity 1 incident has been confirmed.",
            ),
            (2, "The clock of our own notification starts when we have confirmed the vendor's report."),
        ),
        {
            "supported": (
                "The Data Protection Officer tells affected customers within 72 hours of confirming a severity 1 incident. Where a vendor reported it, the clock starts when we have confirmed that report.",
                "",
                "none",
                "Both statements restate the standard.",
            ),
            "contradicted": (
                "The Data Protection Officer tells affected customers within 24 hours of confirming a severity 1 incident.",
                "within 24 hours",
                "number",
                "24 hours is the vendors' deadline towards us; ours is 72 hours.",
            ),
            "overclaim": (
                "Customers are always told of any incident within 72 hours, whatever its severity.",
                "any incident within 72 hours, whatever its severity",
                "scope",
                "Only severity 1 incidents carry the 72 hours.",
            ),
            "partially_supported": (
                "The Data Protection Officer notifies affected customers no later than 72 hours after confirmation. Each of them is offered a year of credit monitoring.",
                "offered a year of credit monitoring",
                "addition",
                "No passage offers credit monitoring.",
            ),
            "unsupported": (
                "The chief executive signs every breach notice before it leaves the company.",
                "The chief executive signs every breach notice",
                "entity",
                "No passage says who signs a notice.",
            ),
        },
    ),
    Case(
        "contracts",
        "May the customer terminate early, and what does it owe then?",
        (
            (
                "Master Services Agreement › 9.1 Term",
                "The initial term is 24 months from the Effective Date. It renews for successive periods of 12 months "
                "unless either party gives notice of non-renewal at least 60 days before the period ends.",
            ),
            (
                "Master Services Agreement › 9.3 Termination for convenience",
                "After the first 12 months of the initial term, Customer may terminate this Agreement for convenience "
                "on 90 days' written notice. Supplier has no corresponding right.",
            ),
            (
                "Master Services Agreement › 9.4 Early termination charge",
                "On termination under clause 9.3 Customer pays 40 percent of the fees that would have fallen due in the "
                "remainder of the initial term. The charge is Supplier's sole remedy for early termination.",
            ),
            (
                "Master Services Agreement › 11.2 Liability",
                "Neither party's aggregate liability exceeds the fees paid in the twelve months before the event. The "
                "cap does not apply to breach of confidentiality.",
            ),
            (
                "Order Form A",
                "Fees are invoiced quarterly in advance and fall due 45 days after the date of the invoice. Late sums "
                "bear interest at 4 percent above base rate.",
            ),
        ),
        (
            (
                1,
                "After the first 12 months of the initial term, Customer may terminate this Agreement for convenience on 90 days' written notice.",
            ),
            (
                2,
                "On termination under clause 9.3 Customer pays 40 percent of the fees that would have fallen due in the remainder of the initial term.",
            ),
        ),
        {
            "supported": (
                "After the first 12 months the customer may terminate for convenience on 90 days' written notice. It then pays 40 percent of the fees for the rest of the initial term.",
                "",
                "none",
                "Both statements restate clauses 9.3 and 9.4.",
            ),
            "contradicted": (
                "After the first 12 months either party may terminate for convenience on 90 days' written notice.",
                "either party",
                "party",
                "Clause 9.3 gives the right to the customer alone.",
            ),
            "overclaim": (
                "The customer may terminate for convenience at any time on 90 days' written notice.",
                "at any time",
                "condition",
                "The right begins after the first 12 months.",
            ),
            "partially_supported": (
                "The customer may terminate on 90 days' notice after 12 months. Prepaid fees are refunded within 30 days.",
                "Prepaid fees are refunded within 30 days",
                "addition",
                "The agreement grants no refund.",
            ),
            "unsupported": (
                "Early termination requires that the customer first completes a mediation in London.",
                "first completes a mediation in London",
                "irrelevant_citation",
                "No clause speaks of mediation.",
            ),
        },
    ),
)

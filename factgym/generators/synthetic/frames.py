"""Sentence frames by kind of fact. Each is an independent syntactic shape; `[a|b]` draws one alternative.

A frame that opens with `^` brings its own fronted adjunct, so no second one is put before it. Slots are resolved by
`factgym.generators.synthetic.clause`; a frame is offered only when each slot that it names outside brackets has words.
Conditions, exceptions, reasons and the like are no part of a frame: `factgym.generators.synthetic.document` adds them.
"""

from __future__ import annotations

WITHIN = (
    "{q:within} of {a}",
    "{q:within} {after_a}",
    "{q:no later than} after {a}",
    "{q:not later than} after {a}",
    "{q:not more than} after {a}",
    "{q:at most} after {a}",
    "{q:within a period of} {after_a}",
    "in the {q} [following|after] {a}",
    "{q:within} counted from {a}",
    "before {q} have passed since {a}",
)
WITHIN_ALONE = ("{q:within}", "{q:in no more than}", "{q:within at most}", "{q:inside}")
BEFORE = (
    "{q:at least} [before|ahead of] {a}",
    "{q:not less than} before {a}",
    "{q:no later than} before {a}",
    "{q:a minimum of} before {a}",
    "{q} or more before {a}",
    "not later than {q} [ahead of|before] {a}",
)
FROM_A = ("from {a}", "after {a}", "following {a}", "counted from {a}", "starting with {a}")

MUST_TIMED = (
    "{party} {must} {vp} {within}",
    "{party} {must} {vp} {within}",
    "^{within}, {party} {must} {vp}",
    "{party} {have} {q} {from_a} [to|in which to] {vp}",
    "{party} {are} [given|allowed] {q} {from_a} [to|in which to] {vp}",
    "[the deadline|the time limit] for {party} to {vp} is {q} {from_a}",
    "^[for|in the case of] {party}, the [deadline|time limit|period allowed] for {ger} is {q} {from_a}",
    "{party} must not [wait more|wait longer|take more] than {q} {from_a} before {ger}",
    "{obj} {must_be} {pp} by {party} {within}",
    "^{within}, {obj} {must_be} {pp} by {party}",
    "{party} {must} [make sure|ensure|see to it] that {obj} {is_o} {pp} {within}",
    "it falls to {party} to {vp} {within}",
    "{party} {are} under a duty to {vp} {within}",
    "{party} {have} the duty to {vp} {within}",
    "{nominal} by {party} [is due|must follow|must take place] {within}",
    "{nominal} is [required|expected] of {party} {within}",
    "a period of {q} in which {party} {must} {vp} [begins|starts to run] with {a}",
    "{party} {must} {vp}, and the time [allowed|given] for this is {q} {from_a}",
    "{party} {must} {vp}; the [deadline|time limit] is {q} {from_a}",
    "[the longest|the most] that {party} may take to {vp} is {q} {from_a}",
    "{ger} is [something that|a task that] {party} {must} complete {within}",
    "^once the clock starts with {a}, {party} {have} {q} to {vp}",
)
MUST_TIMED_ALONE = (
    "{party} {must} {vp} {within}",
    "^{within}, {party} {must} {vp}",
    "{party} {have} {q} [to|in which to] {vp}",
    "[the deadline|the time limit] for {party} to {vp} is {q}",
    "{obj} {must_be} {pp} by {party} {within}",
    "{nominal} by {party} is due {within}",
    "the time [allowed|given] to {party} for {ger} is {q}",
)
SHOULD_TIMED = (
    "{party} {should} {vp} {within}",
    "{party} {are} [advised|encouraged|invited] to {vp} {within}",
    "it is [recommended|suggested|advisable] that {party} {vp} {within}",
    "{obj} should be {pp} by {party} {within}",
    "^{within}, {party} {should} {vp}",
    "it is good practice for {party} to {vp} {within}",
    "^as a matter of good practice, {party} should {vp} {within}",
)
MUST_BEFORE = (
    "{party} {must} {vp} {before}",
    "^{before}, {party} {must} {vp}",
    "{obj} {must_be} {pp} by {party} {before}",
    "{party} {must} {vp}, and do so {before}",
    "the latest that {party} may {vp} is {q} before {a}",
    "{nominal} by {party} is [due|required] {before}",
    "^[for|in the case of] {party}, {ger} {must_do} happen {before}",
    "{party} {must} [ensure|make sure] that {obj} {is_o} {pp} {before}",
    "it falls to {party} to {vp} {before}",
    "{party} {are} under a duty to {vp} {before}",
)
MUST = (
    "{party} {must} {vp}",
    "{obj} {must_be} {pp} by {party}",
    "{party} {are} {m:under a duty} to {vp}",
    "{ger} is [{m:compulsory}|{m:mandatory}|{m:obligatory}] for {party}",
    "{party} {are} {m:obliged} to {vp}",
    "{party} {have} {m:the duty} to {vp}",
)
MAY = (
    "{party} {may} {vp}",
    "{party} {may} {vp}",
    "{obj} {may_be} {pp} by {party}",
    "{party} {have} {m:the right} to {vp}",
    "it is {m:open} to {party} to {vp}",
    "{m:permission} to {vp} is [given|granted] to {party}",
    "{ger} is [{m:open} to|{m:permitted} for|{m:allowed} for] {party}",
    "{party} {are} [{m:entitled}|{m:free}] to {vp}",
    "{party} {have} {m:permission} to {vp}",
    "^for {party}, {ger} is [{m:permitted}|{m:allowed}|{m:acceptable}]",
)
MUST_NOT = (
    "{party} {must_not} {vp}",
    "{party} {must_not} {vp}",
    "{obj} {must_not_be} {pp} by {party}",
    "{party} {are} [{m:prohibited}|{m:barred}] from {ger}",
    "{ger} is [{m:prohibited}|{m:forbidden}|{m:ruled out}] for {party}",
    "{party} must {m:refrain} from {ger}",
    "it is {m:not open} to {party} to {vp}",
    "{party} {have} [{m:no right}|{m:no permission}] to {vp}",
    "{ger} is [{m:not allowed}|{m:not permitted}] for {party}",
    "^as far as {party} {are} concerned, {ger} is [{m:prohibited}|{m:not permitted}]",
)
MUST_NOT_ALL = (
    "{party} {are} [prohibited|barred] from {ger}",
    "{ger} is [prohibited|forbidden|ruled out] for {party}",
    "{party} must refrain from {ger}",
    "^as far as {party} {are} concerned, {ger} is [prohibited|ruled out]",
)
"""Prohibitions for everyone, where "every member may not" would be ambiguous."""
NEED_NOT = (
    "{party} {need_not} {vp}",
    "{party} {are} [{m:under no obligation}|{m:not obliged}|{m:not required}] to {vp}",
    "it is {m:optional} for {party} to {vp}",
    "there is {m:no duty} on {party} to {vp}",
    "{ger} is [{m:voluntary}|{m:optional}] for {party}",
    "{obj} {m:need not be} {pp} by {party}",
)
EVERY = (
    "{party} {must} {vp} {freq}",
    "{obj} {must_be} {pp} {freq} by {party}",
    "^{freq_front}, {party} {must} {vp}",
    "{party} {must} [see to it|make sure] that {obj} {is_o} {pp} {freq}",
    "{ger} is required of {party} {freq}",
    "{ger} is [compulsory|mandatory|obligatory] for {party} {freq}",
    "{party} {have} the duty to {vp} {freq}",
    "{nominal} by {party} takes place {freq}",
    "it falls to {party} to {vp} {freq}",
    "{party} {vp_present} {freq}",
    "^[for|in the case of] {party}, {ger} is due {freq}",
)
APPROVE = (
    "{things} {over} {q} [require|need|call for] [the approval of|approval by|sign-off from] {authority}",
    "{authority} [must|has to] [approve|authorise|sign off] {things} {over} {q}",
    "{things} {over} {q} may not [proceed|go ahead] [without the approval of|until approved by] {authority}",
    "[approval by|the consent of|written approval from] {authority} is [needed|required] for {things} {over} {q}",
    "^[above|beyond] {q}, {things} must be [approved|authorised] by {authority}",
    "where {things} exceed {q}, {authority} [must give approval|decides|has the final say]",
    "the authority to approve {things} {over} {q} [lies|rests] with {authority}",
    "{things} {over} {q} are [subject to|conditional on] [approval by|the approval of] {authority}",
    "{authority} [decides on|is the approver for] {things} {over} {q}",
    "{things} {over} {q} go to {authority} for [approval|authorisation]",
    "no {things} {over} {q} are valid [unless approved|until signed off] by {authority}",
    "it is {authority} that [approves|authorises] {things} {over} {q}",
)
CAP = (
    "{party} may {do} [{q:up to}|{q:no more than}|{q:at most}|{q:a maximum of}] {per} {for}",
    "[the most|the maximum] that {party} may {do} {for} is {q} {per}",
    "^{for}, {party} may {do} [{q:up to}|{q:no more than}|{q:at most}] {per}",
    "{party} {are} [limited|restricted] to {q} {per} when {doing} {for}",
    "what {party} may {do} {for} is [capped at|limited to] {q} {per}",
    "[a limit|a ceiling|a cap] of {q} {per} applies to what {party} {do_present} {for}",
    "[the limit|the ceiling] for {party} {doing} {for} is {q} {per}",
    "{party} must not {do} more than {q} {per} {for}",
    "{party} {are} allowed to {do} {for}, but [only up to|no more than] {q} {per}",
    "{q} {per} is the [most|maximum] that {party} may {do} {for}",
)
CAP_COUNT = tuple(frame for frame in CAP if "{doing}" not in frame)
"""For limits that are no money ("take at most 5 days for study")."""
CAP_DURATION = (
    "{party} may {do} {for} [{q:for up to}|{q:for no more than}|{q:for at most}] {per}",
    "{party} must not {do} {for} {q:for more than} {per}",
    "[the longest|the most] that {party} may {do} {for} is {q} {per}",
    "^for {party}, {doing} {for} is limited to {q} {per}",
    "{doing} {for} is limited to {q} {per} for {party}",
    "{party} {are} allowed to {do} {for}, but [{q:only for up to}|{q:for no more than}] {per}",
    "[a limit|a ceiling] of {q} {per} applies to {party} {doing} {for}",
)
"""For limits on how long something is done ("stay for up to 24 hours")."""
KEEP = (
    "{things} [must be|are] [kept|retained] for {q} {after_a}",
    "{party} {must} [keep|retain|hold] {things} for {q} {after_a}",
    "[the retention period|the storage period] for {things} is {q} {from_a}",
    "{things} are [destroyed|deleted|disposed of] {q} after {a}",
    "^after {a}, {things} [stay|remain] on file for {q}",
    "^for {q} {after_a}, {things} [must be kept|are kept|must be preserved]",
    "{party} {must} [dispose of|destroy] {things} {q} after {a}",
    "{things} are due for [destruction|disposal] {q} after {a}",
    "^once {q} have passed since {a}, {things} must be [destroyed|deleted]",
    "[the time|the period] for which {party} {must} [keep|hold] {things} is {q} {from_a}",
)
DUTY = (
    "{authority} is [responsible for|in charge of|accountable for] {ger}",
    "{ger} is [the responsibility of|a matter for|a task for|handled by] {authority}",
    "[the task|the duty|the job] of {ger} [lies with|rests with|belongs to|falls to] {authority}",
    "[responsibility for] {ger} [lies|rests] with {authority}",
    "{authority} [must|has to|is to] {vp}",
    "{obj} {must_be} {pp} by {authority}",
    "it is for {authority} to {vp}",
    "it is {authority} that {vp_third}",
    "{authority} {vp_third}",
    "{authority} [has been given|has] the task of {ger}",
)
PENALTY = (
    "^[if|where|when|whenever] {event}, {result}",
    "{result} [if|where|when|whenever] {event}",
    "{result} [in the event that|in cases where] {event}",
    "the [consequence|result] is that {result} if {event}",
    "^[in the event that|in cases where] {event}, {result}",
    "if it turns out that {event}, {result}",
    "once it is [clear|established] that {event}, {result}",
)
SCOPE_YES = (
    "{here} [applies to|covers|is addressed to] {party}",
    "{party} [are covered by|fall within|come under] {here_obj}",
    "{here} is [meant for|written for] {party}",
)
SCOPE_NO = (
    "{here} does not [apply to|cover|extend to] {party}",
    "{party} [are not covered by|fall outside|are outside the reach of] {here_obj}",
    "{here} is not [meant for|addressed to] {party}",
)
EFFECTIVE = (
    "{here} [takes effect|comes into force|is effective] on {date}",
    "{here} [applies|has effect] from {date} onwards",
    "^[as of|from|with effect from] {date}, {here} [applies|is in force]",
    "the rules on {subject} [come into force|take effect|begin to apply] on {date}",
    "{date} is the date on which {here} [takes effect|comes into force]",
)
MUST_TERM_TIMED = (
    "{party} {must} {vp} {within}",
    "^{within}, {party} {must} {vp}",
    "{party} {have} {q} {from_a} [to|in which to] {vp}",
    "[the deadline|the time limit] for {party} to {vp} is {q} {from_a}",
    "^[for|in the case of] {party}, the [deadline|time limit] for {ger} is {q} {from_a}",
    "{obj} {must_be} {pp} by {party} {within}",
    "{party} {must} [make sure|ensure] that {obj} {is_o} {pp} {within}",
    "{nominal} by {party} [is due|must take place] {within}",
    "{party} {must} {vp}; the [deadline|time limit] is {q} {from_a}",
    "{q} {from_a} is the time that {party} {have} [to|in which to] {vp}",
)
"""For a period with a name of its own ("within the Standard Period after ...")."""
WITHIN_TERM = ("{q:within} [after|from|following] {a}", "{q:in} [after|following] {a}", "no later than {q} after {a}")
DEFINE: dict[str, tuple[str, ...]] = {
    "party": (
        "{term_the} {are} {value}",
        '"{term}" [means|stands for] {value}',
        'the expression "{term}" [covers|refers to] {value}',
        "references to {term_the} are to {value}",
        '{value} {are} [listed as|classed as|entered under] "{term}"',
    ),
    "quantity": (
        "{term_the} is {value}",
        "{term_the} [runs to|amounts to|has been set at] {value}",
        '"{term}" [means|stands for] {value}',
        "the length of {term_the} is {value}",
        "{value} make up {term_the}",
    ),
    "money": (
        "{term_the} is {value}",
        "{term_the} [stands at|has been set at|amounts to] {value}",
        '"{term}" [means|stands for] {value}',
        "the figure for {term_the} is {value}",
    ),
    "anchor": (
        '"{term}" [means|stands for] {value}',
        "{term_the} is [marked by|to be understood as] {value}",
        'by "{term}" is meant {value}',
        "references to {term_the} are to {value}",
        "what counts as {term_the} is {value}",
    ),
    "authority": (
        "{term_the} is {value}",
        '"{term}" [means|stands for] {value}',
        "the part of {term_the} is taken by {value}",
        "{value} acts as {term_the}",
        "references to {term_the} are to {value}",
    ),
    "condition": (
        "{term_the} [if|when|where] {value}",
        "to say that {term_the} means that {value}",
        "{term_the} as soon as {value}",
        "^if {value}, {term_the}",
    ),
}
WAIVE = (
    "{things} does not apply [where|if|when] {x}",
    "^[where|if] {x}, {things} does not apply",
    "{things} [gives way|is set aside] [where|when] {x}",
    "an exception to {things} is made [where|when|if] {x}",
    "there is one case in which {things} does not count: {x}",
    "nothing in {things} applies [where|if] {x}",
)
"""An exception stated away from its rule, with a reference to the rule's section."""

EXTRA = {
    "fee": (
        "{ger} costs {party} {q}",
        "a fee of {q} is charged [when|whenever] {party} {vp_present}",
        "{party} {v:pay} a fee of {q} for {ger}",
        "the [charge|fee] for {ger} is {q}",
    ),
    "countersign": (
        "{ger} needs the countersignature of {authority}",
        "{authority} has to countersign when {party} {vp_present}",
        "^to be valid, {ger} by {party} has to be countersigned by {authority}",
    ),
    "inform": (
        "{authority} is informed whenever {party} {vp_present}",
        "^whenever {party} {vp_present}, word goes to {authority}",
        "news that {party} {vp_present} goes straight to {authority}",
    ),
    "reminder": (
        "{party} {v:receive} a reminder {q} before {ger} falls due",
        "a reminder reaches {party} {q} before {ger} falls due",
        "^{q} before {ger} falls due, {party} {are} reminded of it",
    ),
    "automatic": (
        "consent to {ger} is automatic and cannot be delayed",
        "nobody can delay or refuse consent when {party} {vp_present}",
        "^when {party} {vp_present}, approval follows automatically and cannot be withheld",
    ),
    "deputy": (
        "{party} may have somebody else {vp}",
        "a deputy may {vp} in place of {party}",
        "{ger} can be left to a deputy of {party}",
    ),
    "register": (
        "a register is kept of the cases in which {party} {vp_present}",
        "every case in which {party} {vp_present} is entered in a register",
        "^whenever {party} {vp_present}, an entry is made in a register",
    ),
    "course": (
        "{party} {v:complete} a short course before {ger}",
        "^before {ger}, {party} {v:take} a short course",
        "a short course comes first when {party} {vp_present}",
    ),
    "fine": (
        "{party} {v:face} a fine of {q} for failing to {vp}",
        "a fine of {q} awaits {party} for failing to {vp}",
        "a fine of {q} is due when {party} {v:fail} to {vp}",
    ),
    "bonus": (
        "{party} {v:receive} a credit of {q} for {ger} in good time",
        "a credit of {q} goes to {party} for {ger} [on time|in good time]",
    ),
}
TERSE: dict[str, tuple[str, ...]] = {
    "deadline": (
        "^{party}: {vp} {within}",
        "^time limit for {ger} ({party}): {q} {from_a}",
        "^{ger} [by|on the part of] {party}: {within}",
        "^who: {party}; what: {ger}; when: {within}",
    ),
    "notice": (
        "^{party}: {vp} {before}",
        "^{ger} [by|on the part of] {party}: {before}",
        "^who: {party}; what: {ger}; when: {before}",
    ),
    "every": ("^{party}: {vp} {freq}", "^{ger} ({party}): {freq}"),
    "approve": ("^{things} {over} {q}: approval by {authority}", "^approval of {things} {over} {q}: {authority}"),
    "cap": ("^{party}: {do} {for}, [{q:up to}|{q:at most}] {per}",),
    "keep": (
        "^{things}: keep for {q} {after_a}",
        "^storage of {things}: {q} {from_a}",
        "^{things}: destroy {q} after {a}",
    ),
    "duty": ("^{ger}: {authority}", "^in charge of {ger}: {authority}"),
    "may": ("^{party}: {ger} allowed", "^allowed for {party}: {ger}"),
    "forbid": ("^{party}: {ger} not allowed", "^not allowed for {party}: {ger}"),
    "penalty": ("^{event}: {result}", "^if {event}: {result}"),
    "effective": ("^in force from: {date}", "^valid as of {date}: {here}"),
}
"""The clipped style of ward notices and house rules, used in documents of the out-of-distribution genres alone."""

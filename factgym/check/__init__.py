"""The verdict on your own text: claims of an answer, checked against your documents by any policy that plays ClaimCheck.

`documents` reads a folder and finds a quote's place in its file, `answers` splits texts into claims, `agents` has the
default policy, `checker` plays one episode for each claim and verifies the quotes of its verdict, `calibration` says how often such verdicts are right, and
`report` shows all of it as text, JSON or a page.
"""

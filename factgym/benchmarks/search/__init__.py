"""The exploit search: strategies of a family's space that earn most, measured on fresh tasks, with a certificate."""

"""Write the tables of the page of evidence anew: ``python -m tests.evidence``."""

from tests.evidence.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
print(PAGE)

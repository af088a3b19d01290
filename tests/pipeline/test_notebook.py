"""The notebook among the examples runs from top to bottom, as Jupyter would run it, and finds what it made."""

import ast
import asyncio
import json
import tempfile

from tests.source_tree import ROOT

NOTEBOOK = ROOT / "examples" / "report_with_pandas.ipynb"


async def executed(cells):
    """Run the code in order, in one loop and one namespace; returns the names."""
    names = {}
    for place, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            code = compile(source, f"cell {place}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if asyncio.iscoroutine(result := eval(code, names)):
                await result
    return names


def test_the_notebook_s_tables_have_what_its_journal_has(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    found = asyncio.run(executed(cells))
    ends = {"completed": 350, "expired": 50}
    assert {name: count for name, count in found["summary"]["outcomes"].items() if count} == ends
    counts = found["prefixes"][["keys", "completed", "expired"]]
    assert counts.T.to_dict("list") == {"payment": [200, 150, 50], "parcel": [200, 200, 0]}
    assert found["waited"]["count"].to_dict() == {
        ("parcel", "completed"): 200,
        ("payment", "completed"): 150,
        ("payment", "expired"): 50,
    }

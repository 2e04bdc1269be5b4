"""Importing less of transformers leaves everything usable, and changes no model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.quick_import import import_transformers

START = "import sys\nfrom fedsgt.stack.quick_import import import_transformers\nimport_transformers()\n"
LEFT_OUT = """
assert "scipy.optimize" not in sys.modules
from fedsgt.stack.backbone import load_backbone
print(load_backbone("fedsgt/tiny-vit", "image", 10).hash)
assert "scipy.optimize" not in sys.modules
"""
LATER = """
import numpy as np, transformers
from transformers import AutoTokenizer, BertForSequenceClassification, ViTConfig
from transformers.models import ViTForImageClassification, vit
from transformers.models.bert import modeling_bert
assert modeling_bert.BertForSequenceClassification is BertForSequenceClassification
assert transformers.models.vit is vit and vit.ViTConfig is ViTConfig
assert transformers.models.distilbert.DistilBertConfig is transformers.DistilBertConfig
assert not hasattr(transformers.models, "no_such_model")
import peft, scipy.optimize
from transformers.loss import loss_for_object_detection as detection
costs = np.array([[4.0, 1.0], [2.0, 3.0]])
ours, theirs = (f(costs) for f in (detection.linear_sum_assignment, scipy.optimize.linear_sum_assignment))
assert [*map(list, ours)] == [*map(list, theirs)] == [[0, 1], [1, 0]]
assert detection.linear_sum_assignment is not scipy.optimize.linear_sum_assignment
assert scipy.optimize.minimize(lambda x: x @ x, np.ones(2)).success
print("all there")
"""


@pytest.mark.parametrize("code", [LEFT_OUT, LATER], ids=["left out", "later"])
def test_what_is_left_out_comes_when_it_is_used(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    here = load_backbone("fedsgt/tiny-vit", "image", 10).hash  # in a process that imported transformers whole
    assert done.stdout.strip() in (here, "all there")


def test_a_process_that_has_imported_it_is_left_alone() -> None:
    before = dict(sys.modules)
    assert "transformers" in before
    import_transformers()
    assert dict(sys.modules) == before

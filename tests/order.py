"""Which files are tested first, and which last."""

# Files that take longest begin first, in this order, so that no worker is left alone with one of them at the end. By
# itself xdist begins with those of many tests, which are the quick ones: the Makefile says --no-loadscope-reorder.
LONG = """
    test_batch test_faults test_killed test_engines test_playground test_explanations
    test_oracle test_conformance test_page tabular/test_confidence test_evidence test_settings test_cli.py test_fuzz
    test_as_table test_hf_ucrl_rfe runs/test_starts test_certificates report/test_names test_adversaries test_docs
    tabular/test_radius mixture/test_coverage test_hostile_arrays test_answers test_kept test_choice test_hull
    test_experiments test_store.py test_direct test_vanished test_web test_losses test_gallery test_op_by_op
""".split()
# For a browser, for processes, for time to pass. Files of the browser stay together: it is started once.
WAITING = """
    web/browser/ test_patience test_engines test_faults test_killed test_interrupt test_cli.py test_sweep.py
    test_explanations test_settings test_site test_web.py test_architecture batch/test_kept test_compare
    test_programs test_summary planning/test_backward
""".split()
FORGETFUL = ("linear/test_tangent", "test_tabular_design")


def place(file: str) -> tuple[bool, int]:
    """The long files first, and last those after which nothing is left of what was compiled."""
    return is_forgetful(file), next((i for i, name in enumerate(LONG) if name in file), len(LONG))


def waits(file: str) -> bool:
    """Whether it mostly waits."""
    return any(name in file for name in WAITING)


def is_forgetful(file: str) -> bool:
    """Whether nothing that was traced or compiled is left after it: such come last."""
    return any(name in file for name in FORGETFUL)


def room(file: str) -> str:
    """Where it stands."""
    return file.split("/")[1]

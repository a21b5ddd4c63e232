"""The functions of SciPy that plans and certificates use, in NumPy.

There is no build of SciPy for the playground in the browser. `tests/web/test_part_of_scipy.py` compares each function
with SciPy's own. The library itself always uses SciPy.
"""

from . import linalg as linalg
from . import optimize as optimize
from . import sparse as sparse
from . import special as special

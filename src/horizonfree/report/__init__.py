"""Self-contained HTML reports, comparisons, figures."""

from horizonfree.report.draw import figures, write_figures
from horizonfree.report.page import compare, write_comparison, write_report

__all__ = ["compare", "figures", "write_comparison", "write_figures", "write_report"]

"""Reports: one self-contained HTML file per run, comparisons of several, and their figures as files."""

from horizonfree.report.figures import figures, write_figures
from horizonfree.report.page import compare, write_comparison, write_report

__all__ = ["compare", "figures", "write_comparison", "write_figures", "write_report"]

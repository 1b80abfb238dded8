"""Experiments of the papers: trials over axes and seeds, metrics, claims, figures, a report."""

"""Tests on a real control plane, where one is at hand."""

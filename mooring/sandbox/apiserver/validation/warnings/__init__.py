"""Warnings about valid objects that are likely mistakes, with kube-apiserver's messages."""

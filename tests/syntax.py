"""Syntax trees of sources, each parsed and walked once in a process: many contracts read every file of the package."""

import ast
import functools


@functools.cache
def tree_of(source: str) -> ast.Module:
    """Return the syntax tree of a source; who asks for it must not change it."""
    return ast.parse(source)


@functools.cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a source, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(source)))

"""What the models of Python's and torch's functions see of the rank that is followed."""

from __future__ import annotations

import ast
from typing import Any, Protocol

from .matching import Call
from .values import Group, Project, Tensor
from .world import World


class Sources(Protocol):
    """The files of a project."""

    def tree(self, file: int) -> ast.Module:
        """Return the syntax tree of a file; an empty one if it has no syntax tree."""

    def locate(self, file: int, dotted: str) -> tuple[int, tuple[str, ...]] | None:
        """Return the file of the project that a dotted name in another file leads to, and the names that are left."""

    def matters(self, node: ast.AST) -> bool:
        """Return whether a statement or expression may communicate, or leave what is around it."""

    def communicates(self, node: ast.AST) -> bool:
        """Return whether a function may communicate."""

    def is_generator(self, node: ast.AST) -> bool:
        """Return whether a function is a generator."""

    @property
    def names(self) -> frozenset[str]:
        """The names of functions that communicate."""


class Follower(Protocol):
    """A rank that is followed: :class:`.interpreter.Interpreter`."""

    rank: int
    world: World
    #: the module that the rank is in
    module: Project
    environment: dict[str, Any]
    #: objects whose content is not known any more, by identity
    lost: dict[int, Any]
    #: whether the rank has a process group, and whether another process started it
    initialized: bool
    spawned: bool
    #: the number of processes that were started before this rank's
    started: int
    #: whether ``torch.zeros(2)`` has float32
    float_is_default: bool

    def call(self, function: Any, given: list[Any], keywords: dict[str, Any], node: ast.expr | None) -> Any:
        """Return what a call yields."""

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of a value."""

    def items(self, value: Any) -> list[Any] | None:
        """Return what a loop over a value gets, None if that is not known."""

    def length(self, value: Any) -> int | None:
        """Return ``len(value)``, None if that is not known."""

    def truth(self, value: Any) -> bool | None:
        """Return whether a value is true, None if that is not known."""

    def text_of(self, value: Any) -> Any:
        """Return ``str(value)`` of an object of the project, else the value."""

    def lose(self, value: Any) -> None:
        """What an object holds is not known any more."""

    def pend(self, tensor: Tensor, call: Call, *, writes: bool) -> None:
        """A call goes on that reads a tensor, or writes it."""

    def touched(self, value: Any, *, writes: bool, by: Call | None = None) -> None:
        """A tensor is read or written here."""

    def settle(self, group: Group) -> None:
        """All calls of a group have ended: a later one has."""

    def settle_call(self, call: Call) -> None:
        """A call has ended."""

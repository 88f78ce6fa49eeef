"""Tables and short ways to declare a pipeline, for tests of what a declaration accepts and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from ematix_flow.decorators import PipelineHandle, ematix
from ematix_flow.errors import SpecError
from ematix_flow.markers import natural_key, pk
from ematix_flow.normalize import derive
from ematix_flow.spec.pipeline import Pipeline
from ematix_flow.spec.table import ManagedTable, build_table_class
from ematix_flow.types import BigInt, Text, TimestampTZ

__all__ = ["Customer", "Pair", "Person", "declare", "declared", "no_arguments", "query", "refusal"]


def table(cls: type) -> type[ManagedTable]:
    return build_table_class(cls, schema="dw")


@table
class Customer:
    id: Annotated[BigInt, pk()]
    email: Text
    name: Text
    loud_name: Annotated[Text, derive("upper(name)")]
    seen_at: TimestampTZ
    _loaded_at: TimestampTZ


@table
class Person:
    id: Annotated[BigInt, pk()]
    email: Annotated[Text, natural_key()]
    name: Text


@table
class Pair:
    left: Annotated[BigInt, pk()]
    right: Annotated[BigInt, pk()]


def query(source):
    """The customers."""
    return "SELECT 1 AS id"


def no_arguments(): ...


def declare(function=query, **options: Any) -> PipelineHandle:
    return ematix.pipeline(**({"target": Customer, "mode": "append"} | options))(function)


def declared(function=query, **options: Any) -> Pipeline:
    return declare(function, **options).pipeline


def refusal(kind: type[SpecError] = SpecError, function=query, **options: Any) -> SpecError:
    """The error of a declaration, which names the pipeline and this file."""
    with pytest.raises(kind) as caught:
        declare(function, **({"name": "customers"} | options))
    error = caught.value
    assert type(error) is kind
    assert "pipeline 'customers'" in error.message
    assert Path(str(error.declared_at).partition(":")[0]).name == Path(__file__).name
    return error

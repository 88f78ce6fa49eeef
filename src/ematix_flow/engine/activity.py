"""What a Spark session is doing at this moment, for a progress display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Activity", "activity"]


@dataclass(frozen=True)
class Activity:
    """Running jobs and stages, and the tasks of the running stages."""

    jobs: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks_total: int = 0
    tasks_active: int = 0


def activity(spark: SparkSession) -> Activity:
    """What `spark` is doing now; all zeros where that cannot be known (stopped, dead, or a Connect session).

    Asks about running stages only: a few milliseconds, from any thread.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
        jobs = tracker.getActiveJobsIds()
        if not jobs:
            return Activity()
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    except Exception:  # noqa: BLE001 - vendor boundary: a display must never fail the run it shows
        return Activity()
    return Activity(
        jobs=len(jobs),
        stages=len(stages),
        tasks_done=sum(stage.numCompletedTasks for stage in stages),
        tasks_total=sum(stage.numTasks for stage in stages),
        tasks_active=sum(stage.numActiveTasks for stage in stages),
    )

"""What the history of a job comes to, kept by triggers of ``job_runs``, so that no schedule has to read the history."""

from django.db import models

from experiments.kinds import Job
from experiments.models.experiment import Experiment


class JobState(models.Model):
    """One row for each experiment and job of which a run has ended. Runs that were released count as nothing.

    ``succeeded_at`` is the start of the last successful run, ``failed_at`` the end of the last one that failed or was
    lost, ``failures`` are those since the last success. ``runs`` grows with each end: who saw a number and finds
    another knows that a run ended in between.
    """

    pk = models.CompositePrimaryKey("experiment_id", "job")
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="job_states")
    job = models.TextField(choices=[(job.value, job.value) for job in Job], db_collation="C")
    runs = models.BigIntegerField(db_default=0)
    succeeded_at = models.DateTimeField(null=True, blank=True)
    failures = models.IntegerField(db_default=0)
    failed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "job_states"
        default_permissions = ("view",)

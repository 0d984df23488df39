"""Datasources: the warehouses that experiments read."""

from django.db import models

from experiments.models.datasource_triggers import DATASOURCE_TRIGGERS
from experiments.models.organization import Organization
from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField


class Datasource(models.Model):
    """``config`` is what the engine needs to connect; its secrets are encrypted leaf by leaf before they come here.

    An empty config is that of an organization without a warehouse: online bandits whose outcomes come from callers
    need none.
    """

    id = IdField.with_prefix("ds_")
    organization = models.ForeignKey(Organization, on_delete=models.DO_NOTHING, related_name="datasources")
    name = models.TextField()
    config = models.JSONField(db_default=models.Value({}, output_field=models.JSONField()), blank=True)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "datasources"
        constraints = [models.CheckConstraint(name="datasources_named", condition=~models.Q(name=""))]
        triggers = DATASOURCE_TRIGGERS

    def __str__(self) -> str:
        return self.name

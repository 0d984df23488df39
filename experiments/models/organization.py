"""Organizations: whose datasources, experiments and webhooks these are."""

from django.db import models

from taskqueue.ids import DatabaseNow
from taskqueue.models import IdField


class Organization(models.Model):
    """``webhooks.organization_id`` and ``events.organization_id`` hold this id as plain text."""

    id = IdField.with_prefix("o_")
    name = models.TextField()
    created_at = models.DateTimeField(db_default=DatabaseNow())
    updated_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        db_table = "organizations"
        constraints = [models.CheckConstraint(name="organizations_named", condition=~models.Q(name=""))]

    def __str__(self) -> str:
        return self.name

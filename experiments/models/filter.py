"""Filters: whom of the datasource's table an experiment was meant for, as a record for people."""

from django.db import models
from django.db.models import Q

from experiments.models.conditions import JsonList, JsonPair
from experiments.models.experiment import Experiment


class FilterRelation(models.TextChoices):
    INCLUDES = "includes"
    EXCLUDES = "excludes"
    BETWEEN = "between"


class ExperimentFilter(models.Model):
    """``value`` is a list: the values included or excluded, or the two bounds (null: open)."""

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, related_name="filters")
    field_name = models.TextField()
    relation = models.TextField(choices=FilterRelation)
    value = models.JSONField()

    class Meta:
        db_table = "experiment_filters"
        constraints = [
            models.CheckConstraint(
                name="experiment_filters_relation_declared", condition=Q(relation__in=sorted(FilterRelation.values))
            ),
            models.CheckConstraint(
                name="experiment_filters_value_of_relation",
                condition=Q(JsonList("value")) & (~Q(relation=FilterRelation.BETWEEN.value) | Q(JsonPair("value"))),
            ),
            models.CheckConstraint(name="experiment_filters_named", condition=~Q(field_name="")),
        ]

    def __str__(self) -> str:
        return f"{self.field_name} {self.relation}"

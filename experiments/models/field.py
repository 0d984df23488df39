"""Fields: which columns of the datasource's table an experiment uses, and what for."""

from django.db import models
from django.db.models import Q

from experiments.kinds import FieldUse
from experiments.models.experiment import Experiment


class ExperimentField(models.Model):
    """Metrics are analysed in the order of ``position``. A column may have several uses."""

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="fields")
    field_name = models.TextField()
    use = models.TextField(choices=[(use.value, use.value) for use in FieldUse])
    position = models.IntegerField(db_default=1)

    class Meta:
        db_table = "experiment_fields"
        constraints = [
            models.UniqueConstraint(name="experiment_fields_once", fields=["experiment", "use", "field_name"]),
            models.UniqueConstraint(
                name="experiment_fields_one_unique_id",
                fields=["experiment"],
                condition=Q(use=FieldUse.UNIQUE_ID.value),
            ),
            models.CheckConstraint(
                name="experiment_fields_use_declared", condition=Q(use__in=sorted(kind.value for kind in FieldUse))
            ),
            models.CheckConstraint(name="experiment_fields_named", condition=~Q(field_name="")),
        ]

    def __str__(self) -> str:
        return self.field_name

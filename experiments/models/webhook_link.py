"""Which webhooks hear of an experiment."""

from django.db import models

from experiments.models.experiment import Experiment
from taskqueue.models import Webhook


class ExperimentWebhook(models.Model):
    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(
        Experiment, on_delete=models.DB_CASCADE, db_index=False, related_name="webhook_links"
    )
    webhook = models.ForeignKey(Webhook, on_delete=models.DB_CASCADE, related_name="experiment_links")

    class Meta:
        db_table = "experiment_webhooks"
        constraints = [models.UniqueConstraint(name="experiment_webhooks_once", fields=["experiment", "webhook"])]

    def __str__(self) -> str:
        return f"{self.experiment_id} {self.webhook_id}"

"""Room and vacuuming for a table whose rows are rewritten three times in their first second."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("taskqueue", "0001_initial")]

    operations = [
        # Free space on each page keeps renewals of leases on their page (HOT). The default of vacuuming when a fifth
        # of the rows is dead lets the claim's index fill with dead entries once the table holds millions.
        migrations.RunSQL(
            "ALTER TABLE tasks SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.01,"
            " autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0.02)",
            "ALTER TABLE tasks RESET (fillfactor, autovacuum_vacuum_scale_factor,"
            " autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor)",
        ),
    ]

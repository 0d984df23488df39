"""Room for rows that are rewritten with every outcome, and early vacuuming of tables of many million rows."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("experiments", "0002_job_states")]

    operations = [
        # Each outcome rewrites its arm twice; free space keeps the new version on its page (HOT).
        migrations.RunSQL(
            "ALTER TABLE arms SET (fillfactor = 50)",
            "ALTER TABLE arms RESET (fillfactor)",
        ),
        # By default a fifth of the rows has to change first, and the index of pending draws fills with dead entries.
        migrations.RunSQL(
            "ALTER TABLE draws SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)",
            "ALTER TABLE draws RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor)",
        ),
    ]

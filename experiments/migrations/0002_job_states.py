"""What the history of each job comes to, and wake-ups for workers when a job may be due."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='JobState',
            fields=[
                ('pk', models.CompositePrimaryKey('experiment_id', 'job', blank=True, editable=False, primary_key=True, serialize=False)),
                ('experiment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DB_CASCADE, related_name='job_states', to='experiments.experiment')),
                ('job', models.TextField(choices=[('snapshot', 'snapshot'), ('dwh_pull', 'dwh_pull'), ('autofail', 'autofail')], db_collation='C')),
                ('runs', models.BigIntegerField(db_default=0)),
                ('succeeded_at', models.DateTimeField(blank=True, null=True)),
                ('failures', models.IntegerField(db_default=0)),
                ('failed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'job_states',
                'default_permissions': ('view',),
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='experiment',
            trigger=pgtrigger.compiler.Trigger(name='experiments_notify_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition="WHEN (coalesce(current_setting('taskqueue.notify', true), 'on') <> 'off')", func="\n        IF EXISTS (SELECT id, state, datasource_id, start_date, end_date, enable_autofail, autofail_window FROM new_rows WHERE state = 'committed' EXCEPT SELECT id, state, datasource_id, start_date, end_date, enable_autofail, autofail_window FROM old_rows WHERE state = 'committed') THEN\n            PERFORM pg_notify('experiment_jobs', '');\n        END IF;\n        RETURN NULL;\n    ", hash='cb3f8939017828ca0bdec55d06fae99a537f52f4', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_experiments_notify_update_4f08b', referencing='REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ', table='experiments', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='jobrun',
            trigger=pgtrigger.compiler.Trigger(name='job_runs_count_insert', sql=pgtrigger.compiler.UpsertTriggerSql(condition="WHEN (NEW.status IN ('success', 'failed', 'lost'))", func="\n    INSERT INTO job_states AS state (experiment_id, job, runs, succeeded_at, failures, failed_at)\n    VALUES (\n        NEW.experiment_id, NEW.job, 1,\n        CASE WHEN NEW.status = 'success' THEN NEW.started_at END,\n        CASE WHEN NEW.status = 'success' THEN 0 ELSE 1 END,\n        CASE WHEN NEW.status <> 'success' THEN NEW.finished_at END\n    )\n    ON CONFLICT (experiment_id, job) DO UPDATE SET\n        runs = state.runs + 1,\n        succeeded_at = greatest(state.succeeded_at, excluded.succeeded_at),\n        failures = CASE WHEN NEW.status = 'success' THEN 0 ELSE least(state.failures, 2147483646) + 1 END,\n        failed_at = greatest(state.failed_at, excluded.failed_at);\n    RETURN NULL;\n", hash='79ccf7bcff21dc80ccd3ac5a3b9a185f855fdc00', operation='INSERT', pgid='pgtrigger_job_runs_count_insert_be9c1', table='job_runs', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='jobrun',
            trigger=pgtrigger.compiler.Trigger(name='job_runs_count_end', sql=pgtrigger.compiler.UpsertTriggerSql(condition="WHEN (OLD.status = 'running' AND NEW.status IN ('success', 'failed', 'lost'))", func="\n    INSERT INTO job_states AS state (experiment_id, job, runs, succeeded_at, failures, failed_at)\n    VALUES (\n        NEW.experiment_id, NEW.job, 1,\n        CASE WHEN NEW.status = 'success' THEN NEW.started_at END,\n        CASE WHEN NEW.status = 'success' THEN 0 ELSE 1 END,\n        CASE WHEN NEW.status <> 'success' THEN NEW.finished_at END\n    )\n    ON CONFLICT (experiment_id, job) DO UPDATE SET\n        runs = state.runs + 1,\n        succeeded_at = greatest(state.succeeded_at, excluded.succeeded_at),\n        failures = CASE WHEN NEW.status = 'success' THEN 0 ELSE least(state.failures, 2147483646) + 1 END,\n        failed_at = greatest(state.failed_at, excluded.failed_at);\n    RETURN NULL;\n", hash='54ee4edc6de21d534fbb2a5ce2c4237e9a8ec0ca', operation='UPDATE', pgid='pgtrigger_job_runs_count_end_be612', table='job_runs', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='snapshot',
            trigger=pgtrigger.compiler.Trigger(name='snapshots_notify_insert', sql=pgtrigger.compiler.UpsertTriggerSql(condition="WHEN (coalesce(current_setting('taskqueue.notify', true), 'on') <> 'off')", func="\n        IF EXISTS (SELECT FROM new_rows WHERE status = 'pending') THEN\n            PERFORM pg_notify('experiment_jobs', '');\n        END IF;\n        RETURN NULL;\n    ", hash='309d80e7395101d585ce4db9d7b3263a2358e921', level='STATEMENT', operation='INSERT', pgid='pgtrigger_snapshots_notify_insert_e1a19', referencing='REFERENCING NEW TABLE AS new_rows ', table='snapshots', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='snapshot',
            trigger=pgtrigger.compiler.Trigger(name='snapshots_notify_update', sql=pgtrigger.compiler.UpsertTriggerSql(condition="WHEN (coalesce(current_setting('taskqueue.notify', true), 'on') <> 'off')", func="\n        IF EXISTS (SELECT id FROM new_rows WHERE status = 'pending' EXCEPT SELECT id FROM old_rows WHERE status = 'pending') THEN\n            PERFORM pg_notify('experiment_jobs', '');\n        END IF;\n        RETURN NULL;\n    ", hash='a44ddc5fa252a3062865346c1a2da7b87b9e6557', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_snapshots_notify_update_02652', referencing='REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ', table='snapshots', when='AFTER')),
        ),
    ]

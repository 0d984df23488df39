-- Delete workers that have been silent for a day.
DELETE FROM workers WHERE beat_at < now() - interval '1 day'

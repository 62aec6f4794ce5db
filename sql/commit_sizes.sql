-- Which sources commit in small pieces? A commit costs the same for one row as for thousands; the smallest first.
SELECT t.source_key,
       COUNT(*) AS commits,
       SUM(b.row_count) AS row_count,
       SUM(b.end_offset - b.start_offset) AS content_bytes,
       SUM(b.row_count) / COUNT(*) AS rows_a_commit,
       MIN(b.committed_at) AS first_commit_at,
       MAX(b.committed_at) AS last_commit_at
FROM committed_batch b
JOIN collection_task t ON t.id = b.task_id
GROUP BY t.source_key
ORDER BY rows_a_commit, t.source_key;

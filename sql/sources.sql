-- What has each source brought in? Files, bytes still to read, records, and the last commit.
WITH ledger AS (
    SELECT task_id,
           SUM(row_count) AS row_count,
           SUM(quarantined_count) AS quarantined_count,
           SUM(skipped_count) AS skipped_count,
           MAX(committed_at) AS last_commit_at
    FROM committed_batch
    GROUP BY task_id
)
SELECT s.source_key,
       s.table_name,
       s.status,
       COUNT(t.id) AS files,
       COALESCE(SUM(CASE WHEN t.status NOT IN ('cancelled', 'skipped') AND t.size > t.raw_offset
                         THEN t.size - t.raw_offset ELSE 0 END), 0) AS lag_bytes,
       COALESCE(SUM(l.row_count), 0) AS row_count,
       COALESCE(SUM(l.quarantined_count), 0) AS quarantined_count,
       COALESCE(SUM(l.skipped_count), 0) AS skipped_count,
       MAX(l.last_commit_at) AS last_commit_at
FROM collection_source s
LEFT JOIN collection_task t ON t.source_key = s.source_key
LEFT JOIN ledger l ON l.task_id = t.id
GROUP BY s.source_key, s.table_name, s.status
ORDER BY lag_bytes DESC, s.source_key;

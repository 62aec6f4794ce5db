-- Does the ledger still agree with the checkpoints? No row means yes.
-- gap, overlap: two neighbouring spans do not meet. start, end: the spans do not begin or end where the task does.
WITH span AS (
    SELECT task_id,
           start_offset,
           end_offset,
           LAG(end_offset) OVER (PARTITION BY task_id ORDER BY start_offset) AS previous_end
    FROM committed_batch
),
reach AS (
    SELECT task_id, MIN(start_offset) AS first_start, MAX(end_offset) AS last_end
    FROM committed_batch
    GROUP BY task_id
),
difference AS (
    SELECT task_id,
           CASE WHEN start_offset > previous_end THEN 'gap' ELSE 'overlap' END AS kind,
           previous_end AS expected,
           start_offset AS got
    FROM span
    WHERE start_offset <> previous_end
    UNION ALL
    SELECT t.id, 'start', t.start_offset, r.first_start
    FROM collection_task t
    JOIN reach r ON r.task_id = t.id
    WHERE r.first_start <> t.start_offset
    UNION ALL
    SELECT t.id, 'end', t.content_offset, COALESCE(r.last_end, t.start_offset)
    FROM collection_task t
    LEFT JOIN reach r ON r.task_id = t.id
    WHERE COALESCE(r.last_end, t.start_offset) <> t.content_offset
)
SELECT d.task_id, t.source_key, t.path, d.kind, d.expected, d.got
FROM difference d
LEFT JOIN collection_task t ON t.id = d.task_id
ORDER BY d.task_id, d.got, d.kind;

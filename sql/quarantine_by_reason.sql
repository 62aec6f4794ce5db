-- Which records could not become rows, and why? Open ones only; `filecollect quarantine show ID` shows the bytes.
SELECT q.source_key,
       q.reason,
       COUNT(*) AS records,
       COUNT(DISTINCT q.task_id) AS files,
       MIN(q.id) AS example_id,
       MIN(q.message) AS example,
       MAX(q.created_at) AS last_at
FROM quarantined_item q
WHERE q.state = 'open'
GROUP BY q.source_key, q.reason
ORDER BY records DESC, q.source_key, q.reason;

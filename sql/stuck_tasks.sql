-- What needs a person, or soon will? Failed and retried tasks, and leases that ran out.
SELECT t.id,
       t.source_key,
       t.path,
       t.status,
       t.attempt_count,
       t.max_attempts,
       t.next_run_at,
       t.lease_until,
       w.host,
       w.pid,
       t.last_error
FROM collection_task t
LEFT JOIN worker w ON w.owner_id = t.owner_id
WHERE t.status = 'failed'
   OR (t.status = 'pending' AND t.attempt_count > 0)
   OR (t.status = 'running' AND t.lease_until < CURRENT_TIMESTAMP)
ORDER BY t.attempt_count DESC, t.id;

-- How far behind is each file? Bytes on disk that are not committed yet, the furthest behind first.
SELECT t.source_key,
       t.path,
       t.status,
       t.size - t.raw_offset AS lag_bytes,
       CASE WHEN t.size > 0 THEN 100 * t.raw_offset / t.size ELSE 100 END AS percent,
       t.updated_at,
       t.last_error
FROM collection_task t
WHERE t.size > t.raw_offset
  AND t.status NOT IN ('cancelled', 'skipped')
ORDER BY lag_bytes DESC, t.id;

-- filecollect's own tables for SQLite, version 0002.
-- Rendered by `filecollect db ddl`: change filecollect/store/schema.py and its migrations, not this file.

CREATE TABLE filecollect_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT filecollect_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE collection_source (
	source_key VARCHAR(128) NOT NULL,
	table_name TEXT NOT NULL,
	format TEXT NOT NULL,
	config_json TEXT NOT NULL,
	columns_json TEXT NOT NULL,
	status VARCHAR(20) DEFAULT 'active' NOT NULL,
	paused_reason TEXT,
	last_scan_at TEXT,
	version BIGINT DEFAULT 0 NOT NULL,
	created_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	updated_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	PRIMARY KEY (source_key)
);

CREATE TABLE collection_task (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	generation CHAR(32) NOT NULL,
	parent_task_id BIGINT,
	source_key VARCHAR(128) NOT NULL,
	status VARCHAR(20) DEFAULT 'pending' NOT NULL,
	start_offset BIGINT DEFAULT 0 NOT NULL,
	content_offset BIGINT DEFAULT 0 NOT NULL,
	raw_offset BIGINT DEFAULT 0 NOT NULL,
	checkpoint_json TEXT NOT NULL,
	snapshot_json TEXT,
	owner_id VARCHAR(64),
	lease_until TEXT,
	attempt_count INTEGER DEFAULT 0 NOT NULL,
	max_attempts INTEGER DEFAULT 10 NOT NULL,
	next_run_at TEXT,
	last_error TEXT,
	version BIGINT DEFAULT 0 NOT NULL,
	created_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	updated_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	host VARCHAR(255),
	path TEXT NOT NULL,
	device BIGINT,
	inode BIGINT,
	size BIGINT,
	mtime_ns BIGINT,
	head_length INTEGER,
	head_digest VARCHAR(32),
	content_digest VARCHAR(32)
);

CREATE INDEX ix_collection_task_due ON collection_task (source_key, host, next_run_at, id) WHERE status = 'pending';

CREATE INDEX ix_collection_task_head ON collection_task (source_key, head_length, head_digest);

CREATE INDEX ix_collection_task_inode ON collection_task (source_key, inode);

CREATE INDEX ix_collection_task_lease ON collection_task (source_key, host, lease_until, id) WHERE status = 'running';

CREATE INDEX ix_collection_task_owner ON collection_task (owner_id);

CREATE INDEX ix_collection_task_path ON collection_task (path);

CREATE INDEX ix_collection_task_ready ON collection_task (status, next_run_at, id);

CREATE INDEX ix_collection_task_source_path ON collection_task (source_key, path);

CREATE TABLE worker (
	owner_id VARCHAR(64) NOT NULL,
	host VARCHAR(255),
	boot_id VARCHAR(64),
	pid_namespace VARCHAR(64),
	pid INTEGER NOT NULL,
	process_start VARCHAR(64),
	app_version VARCHAR(64) NOT NULL,
	started_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	heartbeat_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	counters_json TEXT,
	PRIMARY KEY (owner_id)
);

CREATE TABLE committed_batch (
	task_id BIGINT NOT NULL,
	seq BIGINT NOT NULL,
	start_offset BIGINT NOT NULL,
	end_offset BIGINT NOT NULL,
	start_line BIGINT NOT NULL,
	row_count BIGINT DEFAULT 0 NOT NULL,
	quarantined_count BIGINT DEFAULT 0 NOT NULL,
	skipped_count BIGINT DEFAULT 0 NOT NULL,
	digest VARCHAR(32) NOT NULL,
	kind VARCHAR(20) DEFAULT 'data' NOT NULL,
	owner_id VARCHAR(64) NOT NULL,
	version BIGINT NOT NULL,
	committed_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	CONSTRAINT pk_committed_batch PRIMARY KEY (task_id, seq),
	CONSTRAINT uq_committed_batch_start UNIQUE (task_id, start_offset)
);

CREATE TABLE collected_item (
	id INTEGER NOT NULL,
	source_key VARCHAR(128) NOT NULL,
	source_item_id VARCHAR(128) NOT NULL,
	payload TEXT NOT NULL,
	collected_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	_task_id BIGINT NOT NULL,
	_offset BIGINT NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT uq_collected_item_key UNIQUE (source_key, source_item_id),
	CONSTRAINT uq_collected_item_record UNIQUE (_task_id, _offset)
);

CREATE TABLE quarantined_item (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	task_id BIGINT NOT NULL,
	source_key VARCHAR(128) NOT NULL,
	start_offset BIGINT NOT NULL,
	length BIGINT NOT NULL,
	line BIGINT NOT NULL,
	raw BLOB NOT NULL,
	reason VARCHAR(64) NOT NULL,
	message TEXT NOT NULL,
	parser_json TEXT NOT NULL,
	state VARCHAR(20) DEFAULT 'open' NOT NULL,
	created_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	CONSTRAINT uq_quarantined_item_record UNIQUE (task_id, start_offset)
);

CREATE INDEX ix_quarantined_item_state ON quarantined_item (source_key, state);

CREATE TABLE outbox_message (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	source_key VARCHAR(128) NOT NULL,
	task_id BIGINT NOT NULL,
	record_offset BIGINT NOT NULL,
	sink VARCHAR(128) NOT NULL,
	idempotency_key VARCHAR(255) NOT NULL,
	payload TEXT NOT NULL,
	state VARCHAR(20) DEFAULT 'pending' NOT NULL,
	attempt_count INTEGER DEFAULT 0 NOT NULL,
	next_run_at TEXT,
	last_error TEXT,
	owner_id VARCHAR(64),
	lease_until TEXT,
	version BIGINT DEFAULT 0 NOT NULL,
	created_at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL,
	delivered_at TEXT,
	CONSTRAINT uq_outbox_message_idempotency_key UNIQUE (idempotency_key)
);

CREATE INDEX ix_outbox_message_ready ON outbox_message (sink, state, next_run_at, id);

CREATE TABLE file_event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	task_id BIGINT,
	source_key VARCHAR(128),
	path TEXT NOT NULL,
	kind VARCHAR(64) NOT NULL,
	detail TEXT NOT NULL,
	at TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f','now')) NOT NULL
);

CREATE INDEX ix_file_event_at ON file_event (at);

CREATE INDEX ix_file_event_task ON file_event (task_id);

INSERT INTO filecollect_version (version_num) VALUES ('0002');

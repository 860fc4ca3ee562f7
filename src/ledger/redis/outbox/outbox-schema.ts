/**
 * The format of a node's outbox: its tables, and what makes it of a file that an earlier version of weir wrote.
 * `outbox.ts` and `epoch-rows.ts` own the statements.
 */

import type { Schema } from '../../../sqlite/database.ts'
import { LOG_SQL, LOG_VIEWS } from '../../request-table.ts'
import { FIGURE_DEFINITIONS } from '../../usage-figures.ts'
import { COUNTER_DEFINITIONS, COUNTER_TABLES } from './counter-rows.ts'

export const OUTBOX_FILE = 'outbox.sqlite'

const FIGURES = FIGURE_DEFINITIONS.join(', ')

/** By organisation: otherwise a query for one organisation reads the entries of all. */
const INDEXES = `
  CREATE INDEX outbox_pending_of ON outbox (organization) WHERE state = 0;
  CREATE INDEX outbox_taken_of ON outbox (organization, taken_ms) WHERE state = 1;
  CREATE INDEX usage_of ON usage (organization);`

/**
 * `life` holds the epoch of each organisation, and in `served` how many requests of it are in `usage`. `unrecorded` is
 * what an earlier version had given to Redis without recording it by node: Redis has it in its budgets in the epoch
 * `legacy_life`, and in those that followed without a loss.
 */
const EPOCH_TABLES = `
  CREATE TABLE node (id TEXT NOT NULL);
  CREATE TABLE life (
    organization TEXT PRIMARY KEY, life INTEGER NOT NULL, complete INTEGER NOT NULL, served INTEGER NOT NULL DEFAULT 0,
    legacy_life INTEGER NOT NULL DEFAULT 0, is_legacy INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE TABLE given_back (
    organization TEXT NOT NULL, number INTEGER NOT NULL, day INTEGER NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    ${FIGURES}, PRIMARY KEY (organization, number)
  ) WITHOUT ROWID;
  CREATE TABLE unrecorded (
    organization TEXT NOT NULL, day INTEGER NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    ${FIGURES}, PRIMARY KEY (organization, day, key, model)
  ) WITHOUT ROWID;`

/**
 * `folded`: days of `usage` before `before` may have been added up under the first day of their month. `outbox_group`:
 * settlements that were sent after the commit that wrote them, as their rows in `request_batch` and the JSON of their
 * accounts. `far_row`: the batches of requests that ended long after their admission, or before it by another clock.
 */
const LATER_TABLES = `
  CREATE TABLE IF NOT EXISTS folded (one INTEGER PRIMARY KEY CHECK (one = 1), before INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS outbox_group (
    batch INTEGER PRIMARY KEY, due_ms INTEGER NOT NULL, size INTEGER NOT NULL, accounts TEXT NOT NULL
  );
  CREATE TABLE IF NOT EXISTS far_row (id TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID;`

/** A pending settlement may not have reached Redis, so it is sent; what was given up counts as not sent any more. */
const FROM_4 = `
  ALTER TABLE life ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE life ADD COLUMN legacy_life INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE life ADD COLUMN is_legacy INTEGER NOT NULL DEFAULT 0;
  DELETE FROM given_back;
  UPDATE life SET legacy_life = life, life = 0, complete = 0;
  INSERT INTO life (organization, life, complete, served)
    SELECT organization, 0, 0, sum(requests) FROM usage WHERE true GROUP BY organization
    ON CONFLICT DO UPDATE SET served = excluded.served;
  CREATE TABLE unrecorded (
    organization TEXT NOT NULL, day INTEGER NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,
    estimated_requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, images INTEGER NOT NULL, cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (organization, day, key, model)
  ) WITHOUT ROWID;
  INSERT INTO unrecorded
    SELECT organization, day, key, model, sum(requests), sum(estimated_requests), sum(input_tokens),
      sum(cached_input_tokens), sum(output_tokens), sum(images), sum(cost_micro_usd)
    FROM (
      SELECT organization, day, key, model, requests, estimated_requests, input_tokens, cached_input_tokens,
        output_tokens, images, cost_micro_usd FROM usage
      UNION ALL
      SELECT entry ->> '$.account.organization', (entry ->> '$.closing.admittedMs') / 86400000,
        entry ->> '$.account.key', entry ->> '$.closing.settlement.model', -1,
        -(entry ->> '$.closing.settlement.estimated'), -(entry ->> '$.closing.settlement.amounts.inputTokens'),
        -(entry ->> '$.closing.settlement.cachedInputTokens'),
        -(entry ->> '$.closing.settlement.amounts.outputTokens'), -(entry ->> '$.closing.settlement.images'),
        -(entry ->> '$.closing.settlement.amounts.costMicroUsd')
      FROM outbox WHERE state = 0 AND entry ->> '$.closing.settlement.model' IS NOT NULL
    ) GROUP BY organization, day, key, model;
  ALTER TABLE outbox ADD COLUMN organization TEXT NOT NULL DEFAULT '';
  UPDATE outbox SET organization = entry ->> '$.account.organization',
    state = CASE state WHEN 2 THEN 3 ELSE state END, taken_ms = CASE state WHEN 2 THEN 0 ELSE taken_ms END;
  DROP INDEX outbox_given_up;
  ${INDEXES}`

/**
 * Entries, of settlements that Redis did not acknowledge at once, are appended, and only young ones change, so a commit
 * touches a few pages; a key by request ids, which are random, would touch one page for each request. The state of an
 * entry: 0 to be sent; 1 taken; 3 not sent any more, because it is in the sums that are given back to a Redis that lost
 * data.
 */
export const OUTBOX_SCHEMA: Schema = {
  version: 5,
  checked: ['outbox'],
  sql: `
    CREATE TABLE outbox (
      number INTEGER PRIMARY KEY, state INTEGER NOT NULL, due_ms INTEGER NOT NULL, sent_ms INTEGER, taken_ms INTEGER,
      entry TEXT NOT NULL, organization TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX outbox_due ON outbox (due_ms) WHERE state = 0;
    CREATE INDEX outbox_taken ON outbox (taken_ms) WHERE taken_ms IS NOT NULL;
    ${LOG_SQL}
    ${INDEXES}
    ${EPOCH_TABLES}`,
  migrations: { 4: FROM_4 },
  additions: LATER_TABLES + COUNTER_TABLES,
  columns: {
    usage: FIGURE_DEFINITIONS,
    given_back: FIGURE_DEFINITIONS,
    unrecorded: FIGURE_DEFINITIONS,
    counter_spent: COUNTER_DEFINITIONS,
    counter_given: COUNTER_DEFINITIONS,
  },
  views: LOG_VIEWS,
}

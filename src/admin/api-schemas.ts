/**
 * Every answer of the admin API by the name that its document has for it, with those that only keys, organisations and
 * changes have. `api-shapes.ts` has what the console and `weir top` read.
 */

import { Type as t } from '@sinclair/typebox'
import { explanation } from '../reports/explanation-shape.ts'
import {
  auditRow,
  budgets,
  learnedForms,
  nodes,
  nullable,
  reloadedNode,
  requestLine,
  status,
  targets,
  time,
  timed,
  usage,
} from './api-shapes.ts'

const source = t.Union([t.Literal('store'), t.Literal('configuration')])

const keyFields = {
  id: t.String(),
  organization: t.String(),
  source,
  shown: nullable(t.String({ description: 'The beginning of the secret' })),
  models: nullable(t.Array(t.String(), { description: 'Patterns of public names; null: all of the organisation' })),
  limits: t.Record(t.String(), t.Unknown(), { description: 'As in the configuration; money in dollars' }),
  tags: t.Record(t.String(), t.String()),
  fixed_tags: t.Record(t.String(), t.String()),
  priority: t.Union([t.Literal('interactive'), t.Literal('batch')]),
  max_wait_ms: nullable(t.Integer({ description: 'Null: as long as the queue has it' })),
  created_at: nullable(time),
  expires_at: nullable(time),
  revoked_at: nullable(time),
  grace_until: nullable(timed('Until when the secret before is accepted')),
  last_used_at: nullable(time),
  spend_today_micro_usd: nullable(
    t.Integer({ description: 'Null in the answer to a change if the ledger cannot be read' }),
  ),
  state: t.Union(['active', 'expired', 'revoked', 'disabled', 'orphaned'].map((state) => t.Literal(state))),
}

const key = t.Object(keyFields)
const changedFields = {
  ...keyFields,
  warnings: t.Array(t.String(), { description: 'What is valid and probably not meant: patterns that match no model' }),
}

const organizationFields = {
  id: t.String(),
  source,
  models: nullable(t.Array(t.String())),
  limits: keyFields.limits,
  weight: t.Number({ description: 'Its share where requests wait for providers' }),
  created_at: nullable(t.String({ description: 'Null: of the configuration' })),
  state: t.Union(['active', 'disabled', 'overridden'].map((state) => t.Literal(state))),
}

/** By the names that the document of the API has for them. */
export const schemas = {
  Status: status,
  Targets: targets,
  /** `POST /api/targets/:id/forget`. */
  ForgottenForms: t.Object({ target: t.String({ description: '`PROVIDER/MODEL`' }), forgotten: learnedForms }),
  Budgets: budgets,
  /** A raise of a budget, or of one of its counters: `POST /api/budgets/raises`. */
  BudgetRaise: t.Object({
    id: t.String(),
    organization: t.String(),
    name: t.String(),
    value: nullable(t.String({ description: 'null for all counters of the budget' })),
    limits: t.Record(t.String(), t.Unknown(), { description: 'The new limits, as in the configuration' }),
    until: time,
    reason: t.String(),
    actor: t.String(),
  }),
  /** `DELETE /api/budgets/raises/ID` */
  EndedRaise: t.Object({ id: t.String(), state: t.Literal('ended') }),
  /** `POST /api/budgets/reset` */
  BudgetReset: t.Object({
    organization: t.String(),
    name: t.String(),
    value: nullable(t.String()),
    reason: t.String(),
  }),
  RequestLines: t.Object({ rows: t.Array(requestLine) }),
  AuditRows: t.Object({ rows: t.Array(auditRow) }),
  Usage: usage,
  Explanation: explanation,
  /**
   * `GET /api/events`: `event: status` every second, `event: request` for each request that ends, at most 100 a second;
   * `event: omitted` has how many were left out.
   */
  Omitted: t.Object({ requests: t.Integer() }),
  /** `GET /api/keys`; `weir keys list --json` prints all keys, without `more`. */
  Keys: t.Object({
    keys: t.Array(key),
    more: t.Boolean({ description: 'Whether there are keys beyond the limit' }),
  }),
  Key: key,
  /** The answer of `PATCH /api/keys/ID`. */
  ChangedKey: t.Object(changedFields),
  /** The answer of `POST /api/keys` and of `POST /api/keys/ID/rotate`. */
  KeyWithSecret: t.Object({
    ...changedFields,
    secret: t.String({ description: 'The key itself; it is not shown again' }),
  }),
  RevokedKey: t.Object({ id: t.String(), source, state: t.Literal('revoked'), outcome: t.String() }),
  /** `GET /api/organizations`. */
  Organizations: t.Object({ organizations: t.Array(t.Object(organizationFields)) }),
  Nodes: nodes,
  /** `POST /api/nodes/:id/drain`. */
  DrainedNode: t.Object({ id: t.String(), name: t.String(), state: t.Literal('draining') }),
  ReloadedNode: reloadedNode,
  /** `POST /api/nodes/reload`: of every node. */
  ReloadedNodes: t.Object({ nodes: t.Array(reloadedNode) }),
  /** The answer of `POST /api/organizations` and of `PATCH /api/organizations/ID`. */
  ChangedOrganization: t.Object({ ...organizationFields, warnings: changedFields.warnings }),
  /** `POST /api/reload`. */
  Reloaded: t.Object({
    changes: t.Array(t.String()),
    warnings: t.Optional(t.Array(t.String(), { description: 'About keys of the file that are revoked by command' })),
  }),
  RejectedReload: t.Object({ problems: t.Array(t.String()) }),
  /** Every error of the port. */
  Error: t.Object({ error: t.Object({ code: t.String(), message: t.String() }) }),
}
export type SchemaName = keyof typeof schemas

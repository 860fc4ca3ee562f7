/** A row of the table of the admin API, and what it works with. */

import type { JsonObject } from '../core/json.ts'
import type { Changer } from '../keys/admin-audit.ts'
import type { Given, Parameter } from '../reports/parameters.ts'
import type { AdminData } from './admin-data.ts'
import type { SchemaName } from './api-schemas.ts'
import type { EventHub } from './event-hub.ts'
import type { Supervision } from './supervision.ts'

export interface Operation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** With `:id` for that of a key or an organisation. */
  readonly path: string
  readonly summary: string
  /** Of its query. */
  readonly parameters?: readonly Parameter[]
  /** What the fields of its body mean, by name; absent if it has none. */
  readonly body?: Readonly<Record<string, string>>
  /** Schemas by status; the first is that of success. */
  readonly answers: Readonly<Record<number, SchemaName | readonly SchemaName[]>>
  /** Statuses of its errors beside those of every operation. */
  readonly errors?: readonly number[]
  /** Only commands of this machine may ask for it, over the control socket. */
  readonly isLocal?: true
  /** Resolves to the JSON of its success, or to an answer of its own. */
  readonly run: (call: Call, parts: OperationParts) => object | Promise<object>
}

/** A request, checked against the row. */
export interface Call {
  readonly request: Request
  readonly query: Given
  readonly body: JsonObject
  /** Of the path; empty without one. */
  readonly id: string
  /** Who sent it. */
  readonly by: Changer
}

/** What operations work with. */
export interface OperationParts {
  readonly data: AdminData
  readonly events: EventHub
  readonly supervision: Supervision
  /** Lets few reads of the ledger run at a time. */
  readonly reads: { run<T>(read: () => Promise<T>): Promise<T> }
}

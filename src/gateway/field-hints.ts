/** Which keys' callers send fields that only native mode gives an effect: each worker reports a key once a day. */

import type { Key } from '../catalog/catalog.ts'
import type { Compatibility } from '../core/compatibility.ts'
import type { WireForm } from '../core/conversation.ts'
import { DAY_MS } from '../core/durations.ts'

/** A key, and fields of its callers. */
export interface FieldHint {
  readonly organization: string
  readonly key: string
  /** As the log names ignored fields. */
  readonly fields: readonly string[]
}

type Switch = 'reasoning' | 'structured_output' | 'betas' | 'tools'

/** The switch that gives an ignored field an effect, by the API of the caller. */
const SWITCHES: Readonly<Record<WireForm, Readonly<Record<string, Switch>>>> = {
  chat: {},
  responses: {
    reasoning: 'reasoning',
    include: 'reasoning',
    'text.format': 'structured_output',
    max_tool_calls: 'tools',
  },
  messages: {
    thinking: 'reasoning',
    output_config: 'reasoning',
    output_format: 'structured_output',
    context_management: 'betas',
    container: 'betas',
    mcp_servers: 'betas',
    speed: 'betas',
    inference_geo: 'betas',
    top_k: 'betas',
  },
}
const OFF: ReadonlySet<Compatibility[Switch]> = new Set(['off', 'functions'])

/** When each key was reported. With more keys, all are forgotten and reported again. */
const reportedAt = new Map<string, number>()
const KEYS_MAX = 4096

/**
 * What to report of a request: those of its ignored fields whose switch is off for the key; undefined if there are
 * none, or the key was reported within a day.
 */
export function hintOf(key: Key, form: WireForm, ignored: readonly string[], nowMs?: number): FieldHint | undefined {
  return ignored.length === 0 ? undefined : newHintOf(key, form, ignored, nowMs ?? performance.now())
}

function newHintOf(key: Key, form: WireForm, ignored: readonly string[], nowMs: number): FieldHint | undefined {
  const fields = ignored.filter((field) => {
    const name = SWITCHES[form][field]
    return name !== undefined && OFF.has(key.compatibility[name])
  })
  if (fields.length === 0) return undefined
  const name = `${key.organization.id}/${key.id}`
  const lastMs = reportedAt.get(name)
  if (lastMs !== undefined && nowMs - lastMs < DAY_MS) return undefined
  if (reportedAt.size >= KEYS_MAX) reportedAt.clear()
  reportedAt.set(name, nowMs)
  return { organization: key.organization.id, key: key.id, fields }
}

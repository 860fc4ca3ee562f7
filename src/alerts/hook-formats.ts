/** What each format of a hook gets of an alert: the body of the request, and the headers that prove who sends it. */

import { createHmac } from 'node:crypto'
import type { HookConfig } from '../core/alerts-config.ts'
import { MINUTE_MS } from '../core/durations.ts'
import { isObject, type JsonObject, type JsonValue, parseObject, stringOf, withoutMembers } from '../core/json.ts'
import { alertKind } from './alert.ts'

/** What is posted. */
export interface HookBody {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

type Format = (alert: JsonObject, hook: HookConfig, nowMs: number) => HookBody

/**
 * Alertmanager takes an alert as over at its `endsAt`. What lasts is posted again before that, as Prometheus does; what
 * does not end stays for an hour.
 */
const LASTING_MS = 5 * MINUTE_MS
const SHOWN_MS = 60 * MINUTE_MS

/** Slack's limits for a text, for a field of a section, and for their number; PagerDuty's for a summary. */
const SLACK_TEXT_MAX = 3000
const SLACK_FIELD_MAX = 2000
const SLACK_FIELDS_MAX = 10
const PAGERDUTY_SUMMARY_MAX = 1024

/** Fields that every alert has; the others are of its type. */
const COMMON = ['id', 'type', 'status', 'at', 'resolved_at', 'node', 'installation']

const JSON_TYPE = { 'content-type': 'application/json' }

const FORMATS: Readonly<Record<Exclude<HookConfig['format'], 'weir'>, Format>> = { slack, alertmanager, pagerduty }

/** The request for an alert. `text`: the JSON of `Alert`, which hooks of the format `weir` get as it is. */
export function hookBody(text: string, hook: HookConfig, nowMs: number): HookBody {
  if (hook.format === 'weir') return signed(text, hook, nowMs)
  return FORMATS[hook.format](parseObject(text) ?? {}, hook, nowMs)
}

/** `t=UNIX,v1=HEX`: HMAC-SHA256 of the time, a full stop and the body. Each attempt has its own time. */
function signed(body: string, { secret = '' }: HookConfig, nowMs: number): HookBody {
  const seconds = Math.floor(nowMs / 1000)
  const hex = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
  return { body, headers: { ...JSON_TYPE, 'weir-signature': `t=${seconds},v1=${hex}` } }
}

/** Texts are `plain_text`, save the notification: what an alert quotes has no effect as mark-up. */
function slack(alert: JsonObject): HookBody {
  const summary = clipped(`${state(alert)}${summaryOf(alert)}`, SLACK_TEXT_MAX)
  const plain = (text: string) => ({ type: 'plain_text', text, emoji: false })
  const fields = Object.entries(fieldsOf(alert)).map(([name, value]) =>
    plain(clipped(`${name}: ${shown(value)}`, SLACK_FIELD_MAX)),
  )
  const origin = [alert['type'], alert['node'], alert['resolved_at'] ?? alert['at'], alert['id']].map(shown).join(' · ')
  const body = {
    text: summary.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
    blocks: [
      { type: 'section', text: plain(summary) },
      ...(fields.length === 0 ? [] : [{ type: 'section', fields: fields.slice(0, SLACK_FIELDS_MAX) }]),
      { type: 'context', elements: [plain(clipped(origin, SLACK_FIELD_MAX))] },
    ],
  }
  return { body: JSON.stringify(body), headers: JSON_TYPE }
}

/** `POST /api/v2/alerts` takes a list. */
function alertmanager(alert: JsonObject, hook: HookConfig, nowMs: number): HookBody {
  return alertmanagerBody([alert], hook, nowMs)
}

/** The same for several alerts. */
export function alertmanagerBody(alerts: readonly JsonObject[], { secret }: HookConfig, nowMs: number): HookBody {
  const body = JSON.stringify(alerts.map((alert) => postable(alert, nowMs)))
  return { body, headers: { ...JSON_TYPE, ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }) } }
}

/**
 * Alertmanager knows an alert by its labels, so they have nothing that differs between the beginning and the end; of
 * what one of several nodes reports, not the node either but their installation. A label cannot be empty.
 */
function postable(alert: JsonObject, nowMs: number): JsonObject {
  const kind = alertKind(String(alert['type']))
  const fields = fieldsOf(alert)
  const subject = (kind?.subject ?? []).filter((name) => !isEmpty(fields[name]))
  const others = Object.entries(fields).filter(([name, value]) => !subject.includes(name) && !isEmpty(value))
  const lastMs = alert['status'] === undefined ? SHOWN_MS : LASTING_MS
  return {
    labels: {
      alertname: shown(alert['type']),
      service: 'weir',
      severity: kind?.severity ?? 'warning',
      ...(kind?.shared === true ? installationOf(alert) : { node: shown(alert['node']) }),
      ...Object.fromEntries(subject.map((name) => [name, shown(fields[name])])),
    },
    annotations: {
      summary: summaryOf(alert),
      id: shown(alert['id']),
      reported_by: shown(alert['node']),
      ...Object.fromEntries(others.map(([name, value]) => [name, shown(value)])),
    },
    startsAt: shown(alert['at']),
    endsAt: stringOf(alert['resolved_at']) ?? new Date(nowMs + lastMs).toISOString(),
  }
}

/** None in what earlier versions queued. */
function installationOf({ installation }: JsonObject): JsonObject {
  return installation === undefined ? {} : { installation }
}

/** The Events API v2. */
function pagerduty(alert: JsonObject, { secret = '' }: HookConfig): HookBody {
  const type = shown(alert['type'])
  const event = { routing_key: secret, dedup_key: shown(alert['id']), client: 'weir' }
  const payload = {
    summary: clipped(summaryOf(alert), PAGERDUTY_SUMMARY_MAX),
    source: shown(alert['node']),
    severity: alertKind(type)?.severity ?? 'warning',
    timestamp: shown(alert['at']),
    component: 'weir',
    class: type,
    custom_details: fieldsOf(alert),
  }
  const body =
    alert['status'] === 'resolved'
      ? { ...event, event_action: 'resolve' }
      : { ...event, event_action: 'trigger', payload }
  return { body: JSON.stringify(body), headers: JSON_TYPE }
}

function summaryOf(alert: JsonObject): string {
  const type = shown(alert['type'])
  return alertKind(type)?.summary(alert) ?? type
}

function state(alert: JsonObject): string {
  const status = stringOf(alert['status'])
  return status === undefined ? '' : `[${status}] `
}

function fieldsOf(alert: JsonObject): JsonObject {
  return withoutMembers(alert, COMMON)
}

function isEmpty(value: JsonValue | undefined): boolean {
  return value === null || value === undefined || value === ''
}

function shown(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '–'
  if (Array.isArray(value)) return value.map(shown).join('; ')
  return isObject(value) ? JSON.stringify(value) : String(value)
}

function clipped(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

/** What a worker reports while it runs, and the other parts of the supervisor handle. */

import type { RestartReason } from '../../admin/supervision.ts'
import type { PeerUpdate } from '../../assembly/inference-service.ts'
import type { LedgerRole } from '../../assembly/open-ledger.ts'
import type { Amount, Ask, RoomReport, Taken } from '../../capacity/common-room.ts'
import type { TargetRef } from '../../core/model-config.ts'
import type { TargetTimes } from '../../gateway/breaker.ts'
import type { FieldHint } from '../../gateway/field-hints.ts'
import type { ItemText } from '../../items/item-store.ts'
import type { FiguresPost } from '../../metrics/figures-post.ts'
import type { FormEvidence, LearnedForm } from '../../providers/form-store.ts'
import type { ToSupervisor, ToWorker } from '../ipc/ipc.ts'
import { itemsOfLines, sizeOf } from '../ipc/supervisor-items.ts'

export interface WorkerProcessEvents {
  /** It accepts requests on this port. */
  readonly onReady: (port: number) => void
  /** It cannot start, for this reason. Not called for a replacement. */
  readonly onFailed: (reason: string) => void
  /** It died before it was ready, for the `deaths`th time in a row. `how` is the exit code or signal. */
  readonly onEarlyDeath: (how: string, deaths: number) => void
  /** It counted the fields of the largest organisation in Redis. */
  readonly onFields: (fields: number) => void
  /** Callers of a key send fields without effect. */
  readonly onFieldsIgnored: (hint: FieldHint) => void
  /** A process of it counted more. `pid` is absent if that process has ended meanwhile. */
  readonly onFigures: (figures: FiguresPost, pid: number | undefined) => void
  /** Targets were called. */
  readonly onTargets: (times: readonly TargetTimes[]) => void
  /** The ledger began or ceased to take its settlements, or there is another reason why it is not well. */
  readonly onLedger: (up: boolean, problem: string | undefined) => void
  /** It learned what the other workers should know. */
  readonly onPeerUpdate: (update: PeerUpdate) => void
  /** It claims the lease to probe a target. Returns whether it gets it. */
  readonly onProbeClaim: (target: TargetRef) => boolean | Promise<boolean>
  /** It sent items of an answer. */
  readonly onItems: (organization: string, items: readonly ItemText[]) => void
  /** It asks for an item. Returns its JSON text. */
  readonly onRecall: (organization: string, id: string) => string | undefined
  /** It learned how requests to a target are to be written. */
  readonly onFormEvidence: (evidence: FormEvidence) => void
  /** It asks for room of providers and targets. */
  readonly onTakeRoom: (asks: readonly Ask[], isLow: boolean) => Taken
  /** It gives room back. */
  readonly onGiveRoom: (amounts: readonly Amount[]) => void
  /** It still holds this. */
  readonly onHoldRoom: (held: readonly Amount[]) => void
  /** It has heard what providers report of their limits. */
  readonly onReportRoom: (reports: readonly RoomReport[]) => void
  /** What was learned of targets, for a process that starts. */
  readonly learnedForms: () => readonly LearnedForm[]
  /** Requests ended: log lines, and how many others there were. */
  readonly onRequests: (lines: readonly string[], omitted: number) => void
  /** Its process died and is started again. `how` is the exit code or signal. */
  readonly onDeath: (how: string, reason: RestartReason) => void
  /** What the process that starts now is to do with an embedded ledger. */
  readonly ledgerRole: () => LedgerRole
  /** Its process is gone, for whatever reason. */
  readonly onGone: (pid: number | undefined) => void
}

/** What is not about the life of the process itself. */
type Report = Exclude<
  ToSupervisor,
  { type: 'hello' | 'built' | 'ready' | 'failed' | 'status' | 'recent' | 'prepared' | 'lent' | 'pong' | 'build' }
>

/** Passes a report on, and sends the answer if it has one. `pid`: of the worker. */
export function report(
  message: Report,
  events: WorkerProcessEvents,
  pid: number | undefined,
  send: (answer: ToWorker) => void,
): void {
  switch (message.type) {
    case 'fields':
      events.onFields(message.fields)
      return
    case 'fields-ignored':
      events.onFieldsIgnored(message.hint)
      return
    case 'figures':
      events.onFigures(message.figures, pid)
      return
    case 'targets':
      events.onTargets(message.targets)
      return
    case 'ledger':
      events.onLedger(message.up, message.problem)
      return
    case 'requests':
      events.onRequests(message.lines, message.omitted)
      return
    case 'news':
      events.onPeerUpdate(message.news)
      return
    case 'remember':
    case 'item-lines': {
      const items = message.type === 'remember' ? message.items : itemsOfLines(message)
      events.onItems(message.organization, items)
      send({ type: 'remembered', size: sizeOf(items) })
      return
    }
    case 'recall':
      send({ type: 'recalled', id: message.id, json: events.onRecall(message.organization, message.item) })
      return
    case 'form-evidence':
      events.onFormEvidence(message.evidence)
      return
    case 'take-room':
      send({ type: 'room', id: message.id, taken: events.onTakeRoom(message.asks, message.isLow) })
      return
    case 'give-room':
      events.onGiveRoom(message.amounts)
      return
    case 'hold-room':
      events.onHoldRoom(message.held)
      return
    case 'report-room':
      events.onReportRoom(message.reports)
      return
    case 'claim':
      void answerClaim(message.id, events.onProbeClaim(message.target), send)
      return
  }
}

async function answerClaim(
  id: number,
  granting: boolean | Promise<boolean>,
  send: (message: ToWorker) => void,
): Promise<void> {
  send({ type: 'granted', id, granted: await granting })
}

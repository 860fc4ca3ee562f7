/**
 * What the supervisor implements for the admin port: the state of weir, its figures, and what a request may make it do.
 * The routes, the status and the metrics know the supervisor by this alone.
 */

import type { HookFailure, TestedHook } from '../alerts/alerts.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'
import type { FieldHint } from '../gateway/field-hints.ts'
import type { TargetState } from '../gateway/target-states.ts'
import type { Changer } from '../keys/admin-audit.ts'
import type { MergedFigures } from '../metrics/merged-figures.ts'
import type { LearnedForm } from '../providers/form-store.ts'
import type { FiguresNow, NodeRow, Nodes, ReloadedNode } from './api-shapes.ts'

/** The supervisor, as the admin port asks it. */
export interface Supervision {
  state(): SystemState
  /** Resolves to why weir is not ready; empty if it is. */
  reasons(): Promise<readonly string[]>
  /** Asks the workers whether the ledger answers them now; `state` has what they last reported. */
  isLedgerUp(): Promise<boolean>
  /** What was learned of how requests to the target are to be written; for a pattern, of all of its models. */
  formsOf(target: TargetRef): readonly LearnedForm[]
  /** Forgets that, on all nodes, and returns what it was. */
  forgetForms(target: TargetRef, by: Changer): Promise<readonly LearnedForm[]>
  figures(): SupervisorFigures
  /** The sums of all workers. */
  readonly sums: Pick<MergedFigures, 'totals' | 'gauges' | 'targets' | 'queue'>
  /** The log lines of the last requests, each one line of JSON, the newest first. */
  recent(count: number): Promise<readonly string[]>
  /** Whether somebody listens to the requests that end. */
  watch(isWatched: boolean): void
  readonly fleet: FleetView
  /** Reads the configuration again. `by`: who wants it, for the admin audit. */
  reload(by: Changer): Promise<ReloadResult>
  /** The configuration in force, and the version of its form, for a command whose file has mistakes. */
  forCommands(): object
  /** Posts one alert to each hook; undefined if the configuration has none. */
  testAlerts(): Promise<readonly TestedHook[] | undefined>
}

/** The nodes that share the Redis, this one included. */
export interface FleetView {
  list(): Nodes
  /** The figures of each other node; empty for a single one. */
  others(): readonly FiguresNow[]
  /** Since when nodes differ, in Unix milliseconds; undefined if they do not. */
  readonly mixedMs: number | undefined
  /** Lets a node, named by its id or its unique name, finish what runs and end. Throws `NodeProblem`. */
  drain(node: string, by: Changer): Promise<NodeRow>
  /** Makes a node, or every node, read its configuration again. Throws likewise. */
  reload(node: string | undefined, by: Changer): Promise<readonly ReloadedNode[]>
}

/** A node that is not there, or does not answer. `message` is one line for the operator. */
export class NodeProblem extends Error {
  override readonly name = 'NodeProblem'

  constructor(
    readonly kind: 'unknown' | 'silent',
    message: string,
  ) {
    super(message)
  }
}

/** What a reload did. Lines for the operator. */
export interface ReloadResult {
  /** Why nothing was applied; empty if the configuration is in force. */
  readonly problems: readonly string[]
  /** What differs from the configuration before, as `changesOf` words it. */
  readonly changes: readonly string[]
  /** Keys of the new configuration that are revoked by command; absent = none. */
  readonly warnings?: readonly string[]
}

/** A reload that was tried. */
export interface LastReload extends Pick<ReloadResult, 'changes' | 'problems'> {
  readonly atMs: number
}

/** The death of a worker that was started again. */
export interface WorkerDeath {
  readonly atMs: number
  readonly worker: number
  /** Its exit code or signal. */
  readonly how: string
}

/** The state of weir, for the status. */
export interface SystemState {
  readonly config: Config
  /** `node_name`. */
  readonly node: string
  /** The port of the inference API. */
  readonly port: number
  readonly startedAtMs: number
  readonly version: string
  readonly commit: string | undefined
  readonly lastReload: LastReload | undefined
  /** The warnings about the configuration in force, as `weir check` prints them. */
  readonly warnings: readonly string[]
  readonly isLedgerUp: boolean
  /** Why it is down. */
  readonly ledgerProblem?: string | undefined
  readonly workers: { readonly configured: number; readonly ready: number; readonly restarts: number }
  /** The last death of a worker. */
  readonly lastDeath: WorkerDeath | undefined
  /** The file system of `data_dir`, if its size is known. */
  readonly space: { readonly freeBytes: number; readonly totalBytes: number } | undefined
  readonly rests: readonly Rest[]
  readonly stateOf: (target: TargetRef) => TargetState
  /** Keys whose callers send fields that only native mode gives an effect, of the last day. */
  readonly hints: readonly (FieldHint & { readonly atMs: number })[]
  /** The hooks of alerts to which every attempt failed. */
  readonly alertFailures: readonly HookFailure[]
}

/** What the supervisor knows at the moment, for the metrics. */
export interface SupervisorFigures {
  /** What the workers counted. */
  readonly counted: MergedFigures
  /** Every target of the configuration, each once. */
  readonly targets: readonly { readonly target: TargetRef; readonly state: TargetState }[]
  readonly workers: {
    readonly configured: number
    readonly ready: number
    /** How many were started again, by the reason. */
    readonly restarts: Readonly<Record<RestartReason, number>>
    /** In seconds, by the number of the worker. */
    readonly loopLag: ReadonlyMap<number, number>
  }
  /** False while a worker reports that the ledger takes no settlements or that API keys cannot be read. */
  readonly ledgerUp: boolean
  /** The number of fields of the largest organisation in Redis; absent without Redis, or before they were counted. */
  readonly ledgerFields?: number | undefined
  /** Free in the file system of `data_dir`. Absent if unknown: the metric is NaN then, not 0, and no alert fires. */
  readonly freeBytes?: number | undefined
  /** The size of the files in `data_dir`; absent if unknown. */
  readonly dataDirBytes?: number | undefined
  readonly lastReload: {
    readonly isSuccess: boolean
    /** When the last successful one ended, in Unix milliseconds. */
    readonly succeededMs: number
  }
  readonly nodes: Nodes['nodes']
  /** `node_name`. */
  readonly node: string
  readonly builds: readonly RunningBuild[]
  readonly processes: readonly ProcessUsage[]
}

/** `exit`: its process ended by itself. `signal`: a signal ended it. `stuck`: its event loop stood still. */
export const RESTART_REASONS = ['exit', 'signal', 'stuck'] as const
export type RestartReason = (typeof RESTART_REASONS)[number]

/** What processes of a role were built from. */
export interface RunningBuild {
  readonly process: 'supervisor' | 'worker'
  readonly version: string
  readonly commit: string
  readonly bun: string
}

/** What the processes of one role take, as the operating system counts it. */
export interface ProcessUsage {
  readonly process: 'supervisor' | 'worker' | 'ledger'
  /** The number of the worker; '' for the others. */
  readonly worker: string
  /** Also of earlier processes with this role. */
  readonly cpuSeconds: number
  /** Undefined while no process of the role runs. */
  readonly running: ProcessReading | undefined
}

/** What the processes of a role take at the moment. */
export interface ProcessReading {
  readonly residentBytes: number
  readonly virtualBytes: number
  readonly openFiles: number
  readonly maxFiles: number
  /** When the newest of them started, in Unix seconds. */
  readonly startSeconds: number
}

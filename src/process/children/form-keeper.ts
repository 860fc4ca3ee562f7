/**
 * What the workers have learned of targets, for all of them and for those that come: in a file of `data_dir`, and in
 * Redis for the other nodes.
 */

import { join } from 'node:path'
import { TargetEntries } from '../../assembly/target-entries.ts'
import type { Config } from '../../config/config.ts'
import { isArray, isObject } from '../../core/json.ts'
import type { TargetRef } from '../../core/model-config.ts'
import {
  type FormEvidence,
  type FormNews,
  FormStore,
  formKey,
  type LearnedForm,
  parseForm,
} from '../../providers/form-store.ts'
import { readSmallFile, writeSmallFile } from '../../sqlite/private-files.ts'
import { SharedForms } from './shared-forms.ts'

const FILE = 'learned-forms.json'

export class FormKeeper {
  private readonly store = new FormStore()
  private entries = new TargetEntries({ providers: [], models: [] })
  private file: string | undefined
  private shared: SharedForms | undefined

  /** `changed`: takes what all workers should know. */
  constructor(private readonly changed: (news: FormNews) => void) {}

  /** A configuration is in force. What was learned of targets whose entries have changed is dropped. */
  use(config: Config): void {
    this.entries = new TargetEntries(config)
    if (this.file === undefined) {
      this.file = join(config.dataDir, FILE)
      this.store.receive(readForms(this.file))
    }
    const { ledger } = config
    if (ledger.kind === 'redis' && this.shared === undefined) {
      this.shared = new SharedForms(ledger.redis, this.store, {
        isOurs: (form) => this.entries.has(form),
        changed: (news) => this.spread(news),
      })
    }
    this.drop((form) => !this.entries.has(form))
  }

  /** A worker has learned something. */
  hear(evidence: FormEvidence): void {
    if (!this.entries.has(evidence)) return
    const form = this.store.count(evidence)
    if (form === undefined) return
    this.spread({ forms: [form], forgotten: [] })
    this.shared?.add(evidence)
  }

  /** Everything, for a worker that starts. */
  all(): readonly LearnedForm[] {
    return this.store.all()
  }

  /** What holds for a target of the configuration; for a pattern, of all of its models. */
  of(target: TargetRef): readonly LearnedForm[] {
    return this.store.ofConfigured((learned) => this.entries.isAbout(target, learned))
  }

  /** Forgets what was learned of a target, also on the other nodes. Returns what that was. */
  forget(target: TargetRef): readonly LearnedForm[] {
    const held = this.of(target)
    this.drop((form) => this.entries.isAbout(target, form))
    return held
  }

  close(): void {
    this.shared?.close()
  }

  private drop(isMeant: (form: LearnedForm) => boolean): void {
    const forgotten = this.store.forget(isMeant).map(formKey)
    if (forgotten.length === 0) return
    this.spread({ forms: [], forgotten })
    this.shared?.forget(forgotten)
  }

  private spread(news: FormNews): void {
    this.changed(news)
    if (this.file !== undefined) writeSmallFile(this.file, JSON.stringify({ forms: this.store.all() }, undefined, 1))
  }
}

function readForms(path: string): readonly LearnedForm[] {
  const { forms } = readSmallFile(path)
  return isArray(forms) ? forms.filter(isObject).flatMap((form) => parseForm(form) ?? []) : []
}

/** The answer of `GET /api/explain`, and the output of `weir explain --json`. Money is in micro-dollars. */

import { type Static, type TSchema, Type as t } from '@sinclair/typebox'

const nullable = <T extends TSchema>(schema: T) => t.Union([schema, t.Null()])

export const explanation = t.Object({
  key: t.String(),
  organization: t.String(),
  model: t.String({ description: 'As the caller would name it' }),
  key_state: t.Union([t.Literal('active'), t.Literal('revoked'), t.Literal('disabled'), t.Literal('expired')]),
  auto: t.String({ description: 'Whether the key may, or must, let weir choose the model' }),
  compatibility: t.Record(t.String(), t.String(), { description: 'The switches of native mode that hold for the key' }),
  permissions: t.Array(t.Object({ model: t.String(), allowed: t.Boolean(), reason: t.String() })),
  candidates: t.Array(
    t.Object({
      model: t.String(),
      provider: t.String(),
      target: t.String({ description: "The provider's own name of the model" }),
      weight: nullable(t.Number({ description: 'With `spread: weighted`' })),
      price: t.String({ description: 'For the tier and the tokens of the request, in words, in dollars' }),
      learned: t.Array(t.String(), { description: 'What the target has taught about requests to it, in words' }),
      limits: t.Array(t.String(), {
        description: 'Of the target and its provider, with what is left of them, in words',
      }),
      rest: nullable(t.String({ description: 'Why the target is not called at the moment, in words' })),
    }),
    { description: 'In the order in which they would be tried' },
  ),
  excluded: t.Array(t.Object({ model: t.String(), reason: t.String() })),
  asks: nullable(
    t.Object({ provider: t.String(), target: t.String() }, { description: 'The target that would be called first' }),
  ),
  waits_ms: nullable(
    t.Integer({ description: 'No candidate has room now: for how long at most the request would wait for it' }),
  ),
  rejected: nullable(
    t.Object(
      { status: t.Integer(), code: t.String(), type: t.String(), message: t.String() },
      { description: 'The error that the caller would get now: of the key, the model, limits, or because all rest' },
    ),
  ),
  limits: t.Array(
    t.Object({
      key: nullable(t.String({ description: 'Null: of the organisation as a whole, or of a budget' })),
      budget: t.Optional(t.String({ description: 'The name of the budget, of a counter' })),
      value: t.Optional(nullable(t.String({ description: 'The value of the counter; null if the budget has one' }))),
      limit: t.String(),
      unit: t.String(),
      amount: t.Integer(),
      left: nullable(t.Integer({ description: 'Null if the ledger cannot be read' })),
      renews_at: nullable(t.String({ format: 'date-time' })),
    }),
  ),
  remarks: t.Array(t.String(), { description: 'What is not known, and why' }),
  lines: t.Array(t.String(), { description: 'The same in words, as `weir explain` prints it' }),
})

export type Explanation = Static<typeof explanation>

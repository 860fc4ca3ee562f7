/** The test data of dialect `vertex`: Google's models, and Claude. */

import { vertexClaude } from '../../../src/providers/anthropic/vertex-claude.ts'
import { vertexGemini } from '../../../src/providers/gemini/vertex-gemini.ts'
import { GOOGLE_TOKEN, serviceAccountKey } from '../../support/google-tokens.ts'
import type { SpeechWriter } from '../../support/speech-writer.ts'
import { anthropicConformant } from '../anthropic/dialect.ts'
import { anthropicWriter } from '../anthropic/writer.ts'
import type { DialectUnderTest } from '../conformance.ts'
import { geminiConformant } from '../gemini/dialect.ts'
import { geminiWriter } from '../gemini/writer.ts'
import { endpoint } from '../requests.ts'
import { vertexClaudeRules, vertexGeminiRules } from '../rules.ts'

const place = { project: 'project-1', location: 'europe-west1' }

const claudeWriter: SpeechWriter = {
  ...anthropicWriter,
  streams: (call) => call.path.endsWith(':streamRawPredict'),
}

export const vertexDialect: DialectUnderTest = {
  conformance: [
    {
      ...geminiConformant,
      name: 'vertex-gemini',
      provider: vertexGemini,
      target: { endpoint: endpoint(place), model: 'gemini-3-pro' },
      rules: vertexGeminiRules,
    },
    {
      ...anthropicConformant,
      name: 'vertex-claude',
      provider: vertexClaude,
      target: { endpoint: endpoint(place), model: 'claude-sonnet-4-5@20250929' },
      rules: vertexClaudeRules,
    },
  ],
  fixtures: 'vertex-',
  writer: geminiWriter,
  writerFor: (call) => (call.path.includes('/publishers/anthropic/') ? claudeWriter : geminiWriter),
  get configurations() {
    return [
      {
        entry: { ...place, service_account: serviceAccountKey() },
        more: ['base_url'],
        baseUrl: 'https://europe-west1-aiplatform.googleapis.com',
        header: ['authorization', new RegExp(`^Bearer ${GOOGLE_TOKEN}$`)],
      } as const,
    ]
  },
}

// What the owner sets holds at once; keys go into the vault and never come out.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  const health = await d.api<{ ok: boolean; version: string }>('GET', '/api/health');
  d.check(health.ok && /^\d+\.\d+\.\d+/.test(health.version), 'the box says which version it is');
  const before = await d.api('GET', '/api/settings');
  d.check(before.defaultBudgetCents === 100 && before.approvalThresholdCents === 500 && before.networkDefault === 'none', 'a new box has the defaults');
  await d.api('PUT', '/api/settings', { defaultBudgetCents: 250, networkDefault: 'allowlist', defaultHosts: ['Example.COM.', 'example.org:443'] });
  const t = await d.task('By default', ['step x']);
  d.check(t.budgetCents === 250 && t.hosts.join() === 'example.com,example.org:443', 'a task that names nothing gets what Settings say, spelled normally');
  const none = await d.task('Nowhere', ['step x'], { hosts: [] });
  d.check(none.hosts.length === 0, 'an empty list said explicitly stays empty');
  await d.refused(400, 'colour', 'PUT', '/api/settings', { defaultBudgetCents: 1, colour: 'red' });
  d.check((await d.api('GET', '/api/settings')).defaultBudgetCents === 250, 'a refused change changes nothing');
  await d.api('PUT', '/api/settings', { defaultBudgetCents: 100, networkDefault: 'none', defaultHosts: [] });
  await d.settled([t.id, none.id]);

  const secret = `demo-${'secret-value'}-${process.pid}-0123456789`;
  await d.api('PUT', '/api/vault/SHOP_KEY', secret);
  const names = await d.api('GET', '/api/vault');
  d.check(names.some((k: any) => k.name === 'SHOP_KEY' && k.setAt) && !JSON.stringify(names).includes(secret), 'the vault lists names and times, never values');
  await d.refused(400, '', 'PUT', '/api/vault/SHORT', '1234567');
  await d.refused(400, '', 'PUT', '/api/vault/lower_case', 'long enough a value');
  const peek = await d.task('Looks for it', [`try cat ${d.home}/vault.env /etc/box/vault.env`, 'try env | grep SHOP_KEY', `try ls ${d.home}`]);
  await d.settled([peek.id]);
  const steps = await d.steps(peek.id);
  d.check([1, 2, 3].every((line) => steps[line].exit !== 0), 'a task sees neither the vault, nor the key, nor the home of the box');
  await d.api('DELETE', '/api/vault/SHOP_KEY');
  d.check(!JSON.stringify(await d.api('GET', '/api/vault')).includes('SHOP_KEY'), 'a key can be taken out');
  const said = readFileSync(join(d.home, 'log.jsonl'), 'utf8') + d.box.said();
  const forms = [secret, Buffer.from(secret).toString('base64'), Buffer.from(secret).toString('hex'), encodeURIComponent(secret)];
  d.check(said.includes('SHOP_KEY') && !forms.some((f) => said.includes(f)), "its name is in the log, its value nowhere in what the box wrote");

  for (const [field, value] of [['colour', 1], ['title', ''], ['title', 'x'.repeat(201)], ['prompt', 'x'.repeat(100_001)], ['workspace', '..'], ['workspace', 'nowhere'], ['state', 'done'], ['tools', ['nobody.does']], ['folder', '/home'], ['seat', 'x'.repeat(61)]] as const) {
    await d.refused(400, field, 'POST', '/api/tasks', { title: 't', prompt: 'step x', worker: 'fake', [field]: value });
  }
};

// A phone is paired, may what its role may, and is nobody once it is removed.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  // As a request from elsewhere: a proxy's header is never the screen's.
  const from = (token?: string) => ({ token, headers: { 'x-forwarded-for': '192.0.2.9' } });
  await d.refused(401, '', 'GET', '/api/tasks', undefined, from());
  await d.refused(401, '', 'GET', '/api/tasks', undefined, from('d0000000000000000000000000000000'));

  const paired = async (role: string, name: string) => {
    const { code, url, qr } = await d.api('POST', '/api/pair/code', { role });
    d.check(/^\d{8}$/.test(code) && url.includes(code) && qr.startsWith('<svg'), `a code of 8 digits and a picture of it, for ${name}`);
    const wrong = String((Number(code) + 1) % 1e8).padStart(8, '0');
    d.check((await d.ask('POST', '/api/pair', { code: wrong, name }, from())).status >= 400, 'another code does not pair');
    const a = await d.ask('POST', '/api/pair', { code, name }, from());
    d.check(a.status === 201 && a.body.token && a.body.device.role === role, `${name} is paired as ${role}`);
    d.check((await d.ask('POST', '/api/pair', { code, name: 'again' }, from())).status >= 400, 'a code pairs once');
    return a.body;
  };
  const owner = await paired('owner', "Ada's phone");
  const guest = await paired('device', 'Tablet');

  d.check((await d.ask('GET', '/api/vault', undefined, from(owner.token))).status === 200, 'an owner sees the names in the vault');
  for (const path of ['/api/vault', '/api/settings', '/api/log', '/api/devices', '/api/spend', '/api/permissions']) await d.refused(403, '', 'GET', path, undefined, from(guest.token));
  const made = await d.ask('POST', '/api/tasks', { title: 'From the tablet', prompt: 'ask Well?', worker: 'fake' }, from(guest.token));
  d.check(made.status === 201, 'a device may start tasks');
  const question = await d.question(made.body.id);
  const answer = await d.ask('POST', `/api/approvals/${question.id}`, { approved: true, by: 'somebody else' }, from(guest.token));
  d.check(answer.status === 200 && answer.body.by === 'Tablet', 'and answer, under its own name alone');
  await d.settled([made.body.id]);

  const elsewhere = { token: owner.token, headers: { origin: 'https://evil.example' } };
  d.check((await d.ask('GET', '/api/tasks', undefined, elsewhere)).status === 403, "another site's page is refused, whatever token it has");

  await d.api('DELETE', `/api/devices/${owner.device.id}`);
  await d.refused(401, '', 'GET', '/api/tasks', undefined, from(owner.token));
  await d.refused(403, '', 'DELETE', `/api/devices/${owner.device.id}x`, undefined, from(guest.token));
  d.check((await d.ask('DELETE', `/api/devices/${guest.device.id}`, undefined, from(guest.token))).status === 200, 'a device may remove itself');
  d.check((await d.api('GET', '/api/devices')).length === 0, 'nobody is paired any more');
};

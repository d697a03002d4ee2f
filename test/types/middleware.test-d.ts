import http from 'node:http';
import http2 from 'node:http2';
import express from 'express';
import fastify from 'fastify';
import { type Context, Hono } from 'hono';
import Koa from 'koa';
import { describe, expectTypeOf, it } from 'vitest';
import * as onExpress from '../../src/middleware/express.ts';
import * as onFastify from '../../src/middleware/fastify.ts';
import * as onHono from '../../src/middleware/hono.ts';
import * as onKoa from '../../src/middleware/koa.ts';
import * as onNode from '../../src/middleware/node.ts';

const copies = new onNode.Copies({ maxConcurrent: 1 });

describe('limitDeliveries', () => {
  it('is a listener of node:http and node:http2, whose handler knows the request and response of each', () => {
    expectTypeOf(http.createServer).toBeCallableWith(
      onNode.limitDeliveries(copies, (req, res, copy) => {
        expectTypeOf(req).toEqualTypeOf<http.IncomingMessage>();
        expectTypeOf(res).toEqualTypeOf<http.ServerResponse>();
        expectTypeOf(copy.signal).toEqualTypeOf<AbortSignal>();
      }),
    );
    expectTypeOf(http2.createServer).toBeCallableWith(
      onNode.limitDeliveries(copies, (req: http2.Http2ServerRequest, res: http2.Http2ServerResponse) => {
        res.end(String(req.stream.id));
      }),
    );
  });

  it('stands in a route of Express without hiding what the route knows', () => {
    express().get('/export/:id', onExpress.limitDeliveries(copies), (req, res) => {
      expectTypeOf(req.params.id).toEqualTypeOf<string>();
      expectTypeOf(onExpress.copyOf(res).signal).toEqualTypeOf<AbortSignal>();
    });
    express().use(onExpress.limitDeliveries(copies, { tenant: (req: express.Request) => req.get('x-tenant') ?? '' }));
  });

  it('is a hook and a plugin of Fastify', () => {
    const app = fastify();
    app.get<{ Params: { id: string } }>(
      '/export/:id',
      { onRequest: onFastify.limitDeliveries(copies) },
      (request, reply) => {
        expectTypeOf(request.params.id).toEqualTypeOf<string>();
        return onFastify.deliver(reply, request.params.id);
      },
    );
    app.get(
      '/early',
      { preHandler: onFastify.limitDeliveries(copies, { tenant: ({ raw }) => raw.url ?? '' }) },
      async () => 'ok',
    );
    app.register(onFastify.limitedDeliveries, { copies, class: () => 'public' });
    app.addHook('onRequest', onFastify.limitDeliveries(copies));
    const overHttp2 = fastify({ http2: true });
    overHttp2.get('/', { onRequest: onFastify.limitDeliveries(copies) }, async () => 'ok');
  });

  it('stands in a route of Hono without hiding what the route knows', () => {
    const app = new Hono<{ Variables: { user: string } }>();
    app.get('/export/:id', onHono.limitDeliveries(copies), (c) => {
      expectTypeOf(c.req.param('id')).toEqualTypeOf<string>();
      expectTypeOf(c.get('user')).toEqualTypeOf<string>();
      return onHono.deliver(c, 'all');
    });
    app.use(onHono.limitDeliveries(copies, { tenant: (c: Context) => c.req.header('x-tenant') ?? '' }));
  });

  it('stands in an application of Koa', () => {
    new Koa<{ user: string }>().use(onKoa.limitDeliveries(copies)).use(async (ctx) => {
      expectTypeOf(ctx.state.user).toEqualTypeOf<string>();
      await onKoa.deliver(ctx, ctx.state.user);
    });
    new Koa().use(onKoa.limitDeliveries(copies, { tenant: (ctx: Koa.Context) => ctx.get('x-tenant') }));
  });

  it('refuses what is no such request, and a class that there is not', () => {
    type Options = onNode.LimitOptions<http.IncomingMessage>;
    expectTypeOf<() => number>().not.toExtend<NonNullable<Options['tenant']>>();
    expectTypeOf<() => 'gold'>().not.toExtend<NonNullable<Options['class']>>();
    expectTypeOf<{ maxQueued: number }>().not.toExtend<onNode.CopiesOptions>();
  });
});

/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Scenes of rigid bodies: scene pyramid|joints|queries STEPS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chipmunk/chipmunk.h"

static cpShape *wall(cpSpace *space, cpFloat x0, cpFloat y0, cpFloat x1, cpFloat y1) {
  cpShape *shape = cpSegmentShapeNew(cpSpaceGetStaticBody(space), cpv(x0, y0), cpv(x1, y1), 1);
  cpShapeSetElasticity(shape, 0.6);
  cpShapeSetFriction(shape, 0.8);
  return cpSpaceAddShape(space, shape);
}

static cpBody *box(cpSpace *space, cpFloat x, cpFloat y, cpFloat side) {
  cpBody *body = cpSpaceAddBody(space, cpBodyNew(1, cpMomentForBox(1, side, side)));
  cpBodySetPosition(body, cpv(x, y));
  cpShape *shape = cpSpaceAddShape(space, cpBoxShapeNew(body, side, side, 0));
  cpShapeSetFriction(shape, 0.7);
  return body;
}

static cpBody *ball(cpSpace *space, cpFloat x, cpFloat y, cpFloat radius) {
  cpBody *body = cpSpaceAddBody(space, cpBodyNew(1, cpMomentForCircle(1, 0, radius, cpvzero)));
  cpBodySetPosition(body, cpv(x, y));
  cpShape *shape = cpSpaceAddShape(space, cpCircleShapeNew(body, radius, cpvzero));
  cpShapeSetElasticity(shape, 0.8);
  cpShapeSetFriction(shape, 0.3);
  return body;
}

static void pyramid(cpSpace *space) {
  for (int row = 0; row < 11; row++)
    for (int i = 0; i <= row; i++)
      box(space, i * 32 - row * 16, 330 - row * 31, 30);
  cpBodySetVelocity(ball(space, -250, 60, 18), cpv(500, 40));
}

/* Chains of balls, motors, springs and a wheel. */
static void joints(cpSpace *space) {
  for (int chain = 0; chain < 10; chain++) {
    cpBody *last = cpSpaceGetStaticBody(space);
    for (int i = 0; i < 10; i++) {
      cpBody *body = ball(space, chain * 40 - 180, 380 - i * 25, 8);
      cpVect above = cpv(chain * 40 - 180, 392 - i * 25);
      switch ((chain + i / 5) % 4) {
      case 0:
        cpSpaceAddConstraint(space, cpPivotJointNew(last, body, above));
        break;
      case 1:
        cpSpaceAddConstraint(
            space, cpSlideJointNew(last, body, cpBodyWorldToLocal(last, above), cpvzero, 5, 15));
        break;
      case 2:
        cpSpaceAddConstraint(space, cpDampedSpringNew(last, body, cpBodyWorldToLocal(last, above),
                                                      cpvzero, 12, 400, 5));
        break;
      default:
        cpSpaceAddConstraint(space,
                             cpPinJointNew(last, body, cpBodyWorldToLocal(last, above), cpvzero));
        cpSpaceAddConstraint(space, cpRotaryLimitJointNew(last, body, -1, 1));
      }
      last = body;
    }
    cpSpaceAddConstraint(space, cpSimpleMotorNew(cpSpaceGetStaticBody(space), last, chain - 5));
  }
}

static void count(cpShape *shape, cpVect point, cpVect normal, cpFloat alpha, void *data) {
  (void)shape, (void)point, (void)normal, (void)alpha;
  ++*(int *)data;
}

static void count_shape(cpShape *shape, void *data) {
  (void)shape;
  ++*(int *)data;
}

static void query(cpSpace *space) {
  int hits = 0;
  for (int i = 0; i < 12; i++) {
    cpSegmentQueryInfo first;
    cpPointQueryInfo nearest;
    cpSpaceSegmentQuery(space, cpv(-300, i * 20), cpv(300, 200 - i * 10), 2, CP_SHAPE_FILTER_ALL,
                        count, &hits);
    cpSpaceSegmentQueryFirst(space, cpv(0, 400), cpv(i * 40 - 250, 0), 0, CP_SHAPE_FILTER_ALL,
                             &first);
    cpSpacePointQueryNearest(space, cpv(i * 30 - 150, 100), 60, CP_SHAPE_FILTER_ALL, &nearest);
    cpSpaceBBQuery(space, cpBBNewForCircle(cpv(i * 30 - 150, 50), 40), CP_SHAPE_FILTER_ALL,
                   count_shape, &hits);
    hits += first.shape != NULL;
    hits += nearest.shape != NULL;
  }
  printf("%d\n", hits);
}

static void place(cpBody *body, void *data) {
  (void)data;
  cpVect at = cpBodyGetPosition(body);
  printf("%.2f %.2f %.2f\n", at.x, at.y, cpBodyGetAngle(body));
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  cpSpace *space = cpSpaceNew();
  cpSpaceSetGravity(space, cpv(0, -200));
  cpSpaceSetIterations(space, 15);
  wall(space, -320, 0, 320, 0);
  wall(space, -320, 0, -320, 400);
  wall(space, 320, 0, 320, 400);
  int queries = !strcmp(argv[1], "queries");
  if (!strcmp(argv[1], "pyramid")) {
    cpSpaceSetSleepTimeThreshold(space, 0.5);
    pyramid(space);
  } else if (queries) {
    cpSpaceUseSpatialHash(space, 40, 500);
    for (int i = 0; i < 90; i++)
      (i % 3 ? ball : box)(space, i % 12 * 45 - 250, 50 + i / 12 * 40, 6 + i % 5 * 3);
  } else {
    joints(space);
  }
  for (int step = 0; step < atoi(argv[2]); step++) {
    cpSpaceStep(space, 1 / 60.0);
    if (queries)
      query(space);
  }
  cpSpaceEachBody(space, place, NULL);
  return 0;
}

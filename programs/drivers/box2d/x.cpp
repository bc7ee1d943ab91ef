// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small worlds of boxes, balls and joints, stepped as a game does.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "box2d/box2d.h"

static b2Body *addBox(b2World &world, b2BodyType type, float x, float y, float halfWidth,
                      float halfHeight) {
  b2BodyDef definition;
  definition.type = type;
  definition.position.Set(x, y);
  b2Body *body = world.CreateBody(&definition);
  b2PolygonShape box;
  box.SetAsBox(halfWidth, halfHeight);
  b2FixtureDef fixture;
  fixture.shape = &box;
  fixture.density = 1;
  fixture.friction = 0.4f;
  body->CreateFixture(&fixture);
  return body;
}

static b2Body *addBall(b2World &world, float x, float y, float radius, bool bullet) {
  b2BodyDef definition;
  definition.type = b2_dynamicBody;
  definition.bullet = bullet;
  definition.position.Set(x, y);
  b2Body *body = world.CreateBody(&definition);
  b2CircleShape circle;
  circle.m_radius = radius;
  b2FixtureDef fixture;
  fixture.shape = &circle;
  fixture.density = 2;
  fixture.restitution = 0.5f;
  body->CreateFixture(&fixture);
  return body;
}

static void print(b2World &world) {
  float x = 0, y = 0;
  int awake = 0;
  for (const b2Body *body = world.GetBodyList(); body; body = body->GetNext()) {
    x += body->GetPosition().x;
    y += body->GetPosition().y;
    awake += body->IsAwake();
  }
  printf("%d bodies, %d awake, %d contacts, %.1f %.1f\n", world.GetBodyCount(), awake,
         world.GetContactCount(), x, y);
}

static void pyramid(int steps) {
  b2World world(b2Vec2(0, -10));
  addBox(world, b2_staticBody, 0, -1, 40, 1);
  for (int row = 0; row < 14; ++row)
    for (int n = row; n < 14; ++n)
      addBox(world, b2_dynamicBody, (n - row * 0.5f) * 1.1f - 7, row * 1.05f + 0.5f, 0.5f, 0.5f);
  b2Body *ball = addBall(world, -30, 5, 1, true);
  ball->SetLinearVelocity(b2Vec2(60, 0));
  for (int n = 0; n < steps; ++n)
    world.Step(1 / 60.0f, 8, 3);
  print(world);
}

static void joints(int steps) {
  b2World world(b2Vec2(0, -10));
  b2Body *ground = addBox(world, b2_staticBody, 0, -1, 40, 1);
  b2Body *previous = ground;
  for (int n = 0; n < 30; ++n) {
    b2Body *link = addBox(world, b2_dynamicBody, n - 15.0f, 12, 0.5f, 0.125f);
    b2RevoluteJointDef hinge;
    hinge.Initialize(previous, link, b2Vec2(n - 15.5f, 12));
    world.CreateJoint(&hinge);
    previous = link;
  }
  b2RevoluteJointDef last;
  last.Initialize(previous, ground, b2Vec2(14.5f, 12));
  world.CreateJoint(&last);
  for (int n = 0; n < 8; ++n) {
    b2Body *chassis = addBox(world, b2_dynamicBody, n * 4 - 16.0f, 1.2f, 1, 0.3f);
    for (float side : {-0.8f, 0.8f}) {
      b2Body *wheel = addBall(world, chassis->GetPosition().x + side, 0.6f, 0.4f, false);
      b2WheelJointDef suspension;
      suspension.Initialize(chassis, wheel, wheel->GetPosition(), b2Vec2(0, 1));
      suspension.enableMotor = side < 0;
      suspension.motorSpeed = 10;
      suspension.maxMotorTorque = 5;
      b2LinearStiffness(suspension.stiffness, suspension.damping, 4, 0.7f, chassis, wheel);
      world.CreateJoint(&suspension);
    }
    b2DistanceJointDef rope;
    rope.Initialize(ground, chassis, b2Vec2(chassis->GetPosition().x, 6), chassis->GetPosition());
    rope.maxLength = 8;
    world.CreateJoint(&rope);
    b2Body *slider = addBox(world, b2_dynamicBody, n * 4 - 15.0f, 14, 0.4f, 0.4f);
    b2PrismaticJointDef rail;
    rail.Initialize(ground, slider, slider->GetPosition(), b2Vec2(0, 1));
    rail.lowerTranslation = -1;
    rail.upperTranslation = 2;
    rail.enableLimit = true;
    world.CreateJoint(&rail);
  }
  for (int n = 0; n < steps; ++n)
    world.Step(1 / 60.0f, 8, 3);
  print(world);
}

struct Nearest : b2RayCastCallback {
  float fraction = 1;
  int calls = 0;
  float ReportFixture(b2Fixture *, const b2Vec2 &, const b2Vec2 &, float where) override {
    ++calls;
    return fraction = where;
  }
};

struct Inside : b2QueryCallback {
  int count = 0;
  bool ReportFixture(b2Fixture *) override { return ++count < 100; }
};

static void queries(int steps) {
  b2World world(b2Vec2(0, 0));
  std::vector<b2Vec2> outline;
  for (int n = 0; n < 64; ++n)
    outline.push_back(b2Vec2(60 * cosf(-n * b2_pi / 32), 60 * sinf(-n * b2_pi / 32)));
  b2BodyDef definition;
  b2ChainShape wall;
  wall.CreateLoop(outline.data(), static_cast<int>(outline.size()));
  world.CreateBody(&definition)->CreateFixture(&wall, 0);
  for (int n = 0; n < 300; ++n) {
    float x = static_cast<float>(n * 37 % 80 - 40), y = static_cast<float>(n * 53 % 70 - 35);
    b2Body *body = n % 2 ? addBall(world, x, y, 0.5f, n % 20 == 1)
                         : addBox(world, b2_dynamicBody, x, y, 0.6f, 0.3f);
    body->SetLinearVelocity(b2Vec2(static_cast<float>(n % 13 - 6), static_cast<float>(n % 11 - 5)));
  }
  float sum = 0;
  int calls = 0;
  for (int n = 0; n < steps; ++n) {
    world.Step(1 / 60.0f, 6, 2);
    for (int ray = 0; ray < 60; ++ray) {
      Nearest nearest;
      world.RayCast(&nearest, b2Vec2(0, 0), outline[ray]);
      sum += nearest.fraction;
      Inside inside;
      b2AABB area;
      area.lowerBound.Set(ray - 30.0f, -5);
      area.upperBound.Set(ray - 25.0f, 5);
      world.QueryAABB(&inside, area);
      calls += nearest.calls + inside.count;
    }
  }
  print(world);
  printf("%.1f %d\n", sum, calls);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  int steps = std::stoi(argv[2]);
  if (!strcmp(argv[1], "pyramid"))
    pyramid(steps);
  else if (!strcmp(argv[1], "joints"))
    joints(steps);
  else
    queries(steps);
  return 0;
}

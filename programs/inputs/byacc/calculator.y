/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   A calculator with precedence, error recovery and a union. */
%{
#include <ctype.h>
#include <stdio.h>
int yylex(void);
static void yyerror(const char *s) { puts(s); }
static double variables[26];
%}
%union { double number; int letter; }
%token <number> NUMBER
%token <letter> LETTER
%type <number> expression
%right '='
%left '+' '-'
%left '*' '/' '%'
%right UMINUS
%right '^'
%start list
%%
list : /* empty */
     | list statement '\n'
     | list error '\n' { yyerrok; }
     ;
statement : expression { printf("%g\n", $1); }
          | LETTER '=' expression { variables[$1] = $3; }
          ;
expression : '(' expression ')' { $$ = $2; }
           | expression '+' expression { $$ = $1 + $3; }
           | expression '-' expression { $$ = $1 - $3; }
           | expression '*' expression { $$ = $1 * $3; }
           | expression '/' expression { $$ = $1 / $3; }
           | expression '%' expression { $$ = (int)$1 % (int)$3; }
           | expression '^' expression { double r = 1; for (int i = 0; i < $3; ++i) r *= $1; $$ = r; }
           | '-' expression %prec UMINUS { $$ = -$2; }
           | LETTER { $$ = variables[$1]; }
           | NUMBER
           ;
%%
int yylex(void) {
  int c = getchar();
  while (c == ' ') c = getchar();
  if (islower(c)) { yylval.letter = c - 'a'; return LETTER; }
  if (isdigit(c)) { ungetc(c, stdin); if (scanf("%lf", &yylval.number) == 1) return NUMBER; }
  return c;
}
int main(void) { return yyparse(); }

/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   A small language with the conflicts that such grammars have. */
%token IF ELSE WHILE DO FOR RETURN BREAK CONTINUE STRUCT INT CHAR NAME NUMBER STRING
%token LE GE EQ NE AND OR INC DEC ARROW SHL SHR ASSIGNADD ASSIGNSUB
%right '=' ASSIGNADD ASSIGNSUB
%right '?' ':'
%left OR
%left AND
%left '|'
%left '&'
%nonassoc EQ NE
%nonassoc '<' '>' LE GE
%left SHL SHR
%left '+' '-'
%left '*' '/' '%'
%%
unit : unit external | external ;
external : type declarators ';' | type NAME '(' parameters ')' block | STRUCT NAME '{' members '}' ';' ;
type : INT | CHAR | STRUCT NAME | type '*' ;
declarators : declarator | declarators ',' declarator ;
declarator : NAME | NAME '=' expression | NAME '[' expression ']' ;
parameters : /* none */ | parameter_list ;
parameter_list : type NAME | parameter_list ',' type NAME ;
members : members type declarators ';' | /* none */ ;
block : '{' body '}' ;
body : body item | /* none */ ;
item : statement | type declarators ';' ;
statement : ';' | expression ';' | block
  | IF '(' expression ')' statement
  | IF '(' expression ')' statement ELSE statement
  | WHILE '(' expression ')' statement
  | DO statement WHILE '(' expression ')' ';'
  | FOR '(' optional ';' optional ';' optional ')' statement
  | RETURN optional ';' | BREAK ';' | CONTINUE ';' | error ';' ;
optional : expression | /* none */ ;
expression : unary | expression '=' expression | expression ASSIGNADD expression
  | expression ASSIGNSUB expression | expression '?' expression ':' expression
  | expression OR expression | expression AND expression | expression '|' expression
  | expression '&' expression | expression EQ expression | expression NE expression
  | expression '<' expression | expression '>' expression | expression LE expression
  | expression GE expression | expression SHL expression | expression SHR expression
  | expression '+' expression | expression '-' expression | expression '*' expression
  | expression '/' expression | expression '%' expression | '(' type ')' expression ;
unary : postfix | INC unary | DEC unary | '-' unary | '!' unary | '*' unary | '&' unary ;
postfix : primary | postfix '[' expression ']' | postfix '(' arguments ')' | postfix '.' NAME
  | postfix ARROW NAME | postfix INC | postfix DEC ;
arguments : /* none */ | argument_list ;
argument_list : expression | argument_list ',' expression ;
primary : NAME | NUMBER | STRING | '(' expression ')' ;
%%

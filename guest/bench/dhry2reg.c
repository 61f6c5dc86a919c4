// SPDX-License-Identifier: MIT
// Dhrystone 2 (Weicker, CACM 27:10, 1984, and SIGPLAN Notices 23:8, 1988), the variant that asks
// for registers, written anew: the same mix of statements, types, localities and procedure calls,
// the same values. The original is compiled in two files, so that the procedures of the second
// cannot be inlined into the first; `elsewhere` does the same within one file.
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define elsewhere __attribute__((noipa)) static

enum ident { FIRST, SECOND, THIRD, FOURTH, FIFTH };

typedef char text31[31];

struct record {
    struct record *next;
    enum ident kind;
    union {
        struct {
            enum ident choice;
            int number;
            text31 text;
        } one;
        struct {
            enum ident choice;
            text31 text;
        } two;
        struct {
            char left, right;
        } three;
    } as;
};

static struct record *head, *second;
static int whole;
static bool flag;
static char letter_1, letter_2;
static int row[50];
static int table[50][50];

static struct {
    int one, two, three;
    enum ident choice;
    text31 text_1, text_2;
} end; // the locals of the main loop as it left them
static uint64_t passes;

elsewhere bool is_third(enum ident value) {
    return value == THIRD;
}

elsewhere enum ident same_letter(char left, char right) {
    char kept = left, compared = kept;
    if (compared != right)
        return FIRST;
    letter_1 = kept;
    return SECOND;
}

elsewhere bool later_text(const char *left, const char *right) {
    register int place = 2;
    char letter = 0;
    while (place <= 2)
        if (same_letter(left[place], right[place + 1]) == FIRST) {
            letter = 'A';
            place += 1;
        }
    if (letter >= 'W' && letter < 'Z')
        place = 7;
    if (letter == 'R')
        return true;
    if (strcmp(left, right) > 0) {
        place += 7;
        whole = place;
        return true;
    }
    return false;
}

elsewhere void choose(enum ident value, enum ident *result) {
    *result = value;
    if (!is_third(value))
        *result = FOURTH;
    switch (value) {
    case FIRST:
        *result = FIRST;
        break;
    case SECOND:
        *result = whole > 100 ? FIRST : FOURTH;
        break;
    case THIRD:
        *result = SECOND;
        break;
    case FOURTH:
        break;
    case FIFTH:
        *result = THIRD;
        break;
    }
}

elsewhere void add_up(int left, int right, int *result) {
    int sum = left + 2;
    *result = right + sum;
}

elsewhere void fill_arrays(int line[50], int square[50][50], int place, int value) {
    register int at = place + 5;
    line[at] = value;
    line[at + 1] = line[at];
    line[at + 30] = at;
    for (register int column = at; column <= at + 1; ++column)
        square[at][column] = at;
    square[at][at - 1] += 1;
    square[at + 20][at] = line[at];
    whole = 5;
}

static void follow_head(struct record **result) {
    if (head)
        *result = head->next;
    add_up(10, whole, &head->as.one.number);
}

static void pass_record(register struct record *given) {
    register struct record *next = given->next;
    *given->next = *head;
    given->as.one.number = 5;
    next->as.one.number = given->as.one.number;
    next->next = given->next;
    follow_head(&next->next);
    if (next->kind == FIRST) {
        next->as.one.number = 6;
        choose(given->as.one.choice, &next->as.one.choice);
        next->next = head->next;
        add_up(next->as.one.number, 10, &next->as.one.number);
    } else {
        *given = *given->next;
    }
}

static void count_down(int *number) {
    enum ident state = SECOND;
    int sum = *number + 10;
    do
        if (letter_1 == 'A') {
            sum -= 1;
            *number = sum - whole;
            state = FIRST;
        }
    while (state != FIRST);
}

static void set_letters(void) {
    bool is_a = letter_1 == 'A';
    flag = is_a | flag;
    letter_2 = 'B';
}

static void clear_flag(void) {
    letter_1 = 'A';
    flag = false;
}

static void body(uint64_t iterations) {
    int one = 0, three = 0;
    register int two = 0;
    enum ident choice = FIRST;
    text31 text_1, text_2;
    strcpy(text_1, "DHRYSTONE PROGRAM, 1'ST STRING");
    for (uint64_t pass = 1; pass <= iterations; pass++) {
        clear_flag();
        set_letters();
        one = 2;
        two = 3;
        strcpy(text_2, "DHRYSTONE PROGRAM, 2'ND STRING");
        choice = SECOND;
        flag = !later_text(text_1, text_2);
        while (one < two) {
            three = 5 * one - two;
            add_up(one, two, &three);
            one += 1;
        }
        fill_arrays(row, table, one, three);
        pass_record(head);
        for (register char letter = 'A'; letter <= letter_2; ++letter)
            if (choice == same_letter(letter, 'C')) {
                choose(FIRST, &choice);
                strcpy(text_2, "DHRYSTONE PROGRAM, 3'RD STRING");
                two = (int)pass;
                whole = (int)pass;
            }
        two = two * one;
        one = two / three;
        two = 7 * (two - three) - one;
        count_down(&one);
    }
    end.one = one;
    end.two = two;
    end.three = three;
    end.choice = choice;
    memcpy(end.text_1, text_1, sizeof text_1);
    memcpy(end.text_2, text_2, sizeof text_2);
    passes += iterations;
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    head = malloc(sizeof *head);
    second = malloc(sizeof *second);
    if (!head || !second)
        bench_fail("no memory for two records");
    head->next = second;
    head->kind = FIRST;
    head->as.one.choice = THIRD;
    head->as.one.number = 40;
    strcpy(head->as.one.text, "DHRYSTONE PROGRAM, SOME STRING");
    table[8][7] = 10;
}

static void check(const char *what, long long got, long long want) {
    if (got != want)
        bench_fail("at the end %s is %lld and should be %lld", what, got, want);
}

static void check_text(const char *got, const char *want) {
    if (strcmp(got, want))
        bench_fail("at the end a text is \"%.31s\" and should be \"%s\"", got, want);
}

// What the benchmark's description says that everything must be in the end.
static void cleanup(void) {
    check("the global number", whole, 5);
    check("the flag", flag, true);
    check("the first letter", letter_1, 'A');
    check("the second letter", letter_2, 'B');
    check("the array", row[8], 7);
    check("the table", (unsigned)table[8][7], (unsigned)(passes + 10));
    check("the head's kind", head->kind, FIRST);
    check("the head's choice", head->as.one.choice, THIRD);
    check("the head's number", head->as.one.number, 17);
    check("the next one's kind", second->kind, FIRST);
    check("the next one's choice", second->as.one.choice, SECOND);
    check("the next one's number", second->as.one.number, 18);
    check("the first local", end.one, 5);
    check("the second local", end.two, 13);
    check("the third local", end.three, 7);
    check("the local choice", end.choice, SECOND);
    check_text(head->as.one.text, "DHRYSTONE PROGRAM, SOME STRING");
    check_text(second->as.one.text, "DHRYSTONE PROGRAM, SOME STRING");
    check_text(end.text_1, "DHRYSTONE PROGRAM, 1'ST STRING");
    check_text(end.text_2, "DHRYSTONE PROGRAM, 2'ND STRING");
}

BENCH(dhry2reg) = {
    .help = "one loop of Dhrystone 2 with register variables",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
